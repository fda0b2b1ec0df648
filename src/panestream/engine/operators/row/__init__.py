"""The row operator: the complete window protocol, any assigner, trigger, evictor and function. The specification."""
