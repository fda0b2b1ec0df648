"""Three short demos: ``make demo-rolling``, ``make demo-kill`` and ``make demo-training``. Each leaves a picture."""
