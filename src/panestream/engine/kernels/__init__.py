"""Operations on whole columns, independent of query plans: sorting, grouping, ranges, hashes, slices of time."""
