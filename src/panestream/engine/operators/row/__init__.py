"""The row operator: the complete window protocol for any assigner, trigger, evictor and function. It is the specification."""
