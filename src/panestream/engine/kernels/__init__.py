"""Operations on whole columns, independent of query plans: sorting, grouping, ranges, hashes, panes of time."""
