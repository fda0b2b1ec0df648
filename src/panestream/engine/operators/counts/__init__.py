"""Count windows as columns: which rows of a key are together follows from how many came before."""
