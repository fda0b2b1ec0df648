"""Checks that SQL texts of a job file are expressions over the columns of a row, before Spark sees them.

The text is split into tokens as in Spark's lexer, and each token must be known: ASCII words, quoted names, literals, operators.
A word before a bracket must be a keyword or one of :data:`ALLOWED`, and no word may start a query.
Session settings decide where a string ends (whether backslashes escape, whether double quotes mark names). The text must pass
under each setting, unless a quote stays open, since such a session refuses the text. Letters outside ASCII must be quoted:
Java folds some of them to ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_ALLOWED = """
    abs acos acosh add_months aes_decrypt aes_encrypt aggregate any any_value approx_count_distinct approx_percentile
    approx_top_k approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate array array_agg array_append
    array_compact array_contains array_distinct array_except array_insert array_intersect array_join array_max array_min
    array_position array_prepend array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip
    ascii asin asinh assert_true atan atan2 atanh avg base64 bigint bin binary bit_and bit_count bit_get bit_length bit_or
    bit_xor bitmap_and_agg bitmap_bit_position bitmap_bucket_number bitmap_construct_agg bitmap_count bitmap_or_agg
    bool_and bool_or boolean bround btrim cardinality cast cbrt ceil ceiling char char_length character_length chr
    coalesce collate collation collect_list collect_set collect_union concat concat_ws contains conv convert_timezone corr
    cos cosh cot count count_if count_min_sketch counter_diff covar_pop covar_samp crc32 csc cume_dist curdate
    current_catalog current_database current_date current_path current_schema current_time current_timestamp
    current_timezone current_user date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
    dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal decode degrees dense_rank double e
    element_at elt encode endswith equal_null every exists exp explode explode_outer expm1 extract factorial filter
    find_in_set first first_value flatten float floor forall format_number format_string from_base32 from_csv from_json
    from_unixtime from_utc_timestamp get get_json_object getbit greatest grouping grouping_id hash hex histogram_numeric
    hll_sketch_agg hll_sketch_estimate hll_union hll_union_agg hmac hour hypot if ifnull initcap inline inline_outer
    input_file_block_length input_file_block_start input_file_name instr int is_valid_utf8 is_valid_variant
    is_variant_null isnan isnotnull isnull jaro_winkler_similarity json_array_length json_object_keys json_tuple
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
    kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
    kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
    kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float kurtosis lag
    last last_day last_value lcase lead least left len length levenshtein listagg ln localtime localtimestamp locate log
    log10 log1p log2 lower lpad ltrim luhn_check make_date make_dt_interval make_interval make_time make_timestamp
    make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries
    map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask max max_by md5 mean median min
    min_by minute mod mode monotonically_increasing_id month monthname months_between named_struct nanvl negative next_day
    now nth_value ntile nullif nullifzero nvl nvl2 octet_length overlay parse_json parse_url percent_rank percentile
    percentile_approx percentile_cont percentile_disc pi pmod posexplode posexplode_outer position positive pow power
    printf quarter quote radians raise_error rand randn random randstr rank reduce regexp_count regexp_extract
    regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr regr_avgx regr_avgy regr_count regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right rint round row_number rpad rtrim
    schema_of_csv schema_of_json schema_of_variant schema_of_variant_agg sec second sentences sequence session_user
    session_window sha sha1 sha2 shiftleft shiftright shiftrightunsigned shuffle sign signum sin sinh size skewness slice
    smallint some sort_array soundex space spark_partition_id split split_part sqrt st_asbinary st_geogfromwkb
    st_geomfromwkb st_setsrid st_srid stack startswith std stddev stddev_pop stddev_samp str_to_map string string_agg
    struct substr substring substring_index sum tan tanh theta_difference theta_intersection theta_intersection_agg
    theta_sketch_agg theta_sketch_estimate theta_union theta_union_agg time time_bucket time_diff time_from_micros
    time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc timestamp timestamp_ltz
    timestamp_micros timestamp_millis timestamp_nanos timestamp_ntz timestamp_seconds timestampadd timestampdiff tinyint
    to_base32 to_binary to_char to_csv to_date to_json to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz
    to_unix_timestamp to_utc_timestamp to_varchar to_variant_object transform transform_keys transform_values translate
    trim trunc try_add try_aes_decrypt try_avg try_cast try_divide try_element_at try_make_interval try_make_timestamp
    try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_subtract try_sum
    try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8
    try_variant_array_append try_variant_get try_variant_insert try_variant_set tuple_difference_double
    tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double
    tuple_intersection_theta_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_sketch_estimate_double
    tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double
    tuple_sketch_theta_integer tuple_union_agg_double tuple_union_agg_integer tuple_union_double tuple_union_integer
    tuple_union_theta_double tuple_union_theta_integer typeof ucase unbase64 unhex uniform unix_date unix_micros
    unix_millis unix_nanos unix_seconds unix_timestamp upper url_decode url_encode user uuid validate_utf8 var_pop
    var_samp variance variant_array_append variant_delete variant_explode variant_explode_outer variant_get variant_insert
    variant_set variant_strip_nulls vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance
    vector_norm vector_normalize vector_sum version weekday weekofyear width_bucket window window_time xxhash64 year
    zeroifnull zip_with
"""
ALLOWED = frozenset(_ALLOWED.split())
"""The functions that SQL in a job file may call: their results depend only on their arguments, the session and the row.

A test compares them and the refused ones with all functions of Spark. Others (later or user-defined ones) are refused.
"""

_REFUSED = """
    collations from_avro from_protobuf from_xml java_method measure python_worker_logs range reflect schema_of_avro
    schema_of_xml sql_keywords to_avro to_protobuf to_xml try_reflect xpath xpath_boolean xpath_double xpath_float
    xpath_int xpath_long xpath_number xpath_short xpath_string
"""
REFUSED = frozenset(_REFUSED.split())
"""The known functions that must not be called: they run Java methods, open files or URLs (schemas, descriptors, XML definitions),
return tables, or need a table with measures."""


_QUERY = {"select", "table", "values", "with", "using", "union", "intersect", "except", "minus", "from"}
"""Every query over a table contains at least one of these words, however it starts."""
_TAKES_FROM = {"extract", "trim", "btrim", "ltrim", "rtrim", "substring", "substr", "overlay"}
_KEYWORDS = """
    all and any between by case distinct div else escape exists filter from group ilike in interval is like not or order over
    partition regexp rlike some then when where
    char character dec decimal numeric time timestamp varchar
"""
_BEFORE_BRACKET = frozenset(_KEYWORDS.split())
"""Keywords, and types with a length, which are not functions."""
_TAKES_TYPES = {"from_json": 1, "from_csv": 1, "variant_get": 2, "try_variant_get": 2}
"""Functions with a text argument of types, and the position of this argument."""
_TYPES = re.compile(r"'[^{}\\']*'|\"[^{}\\\"]*\"")
"""Types as DDL. JSON types have braces and may contain defaults, which Spark parses as SQL."""
_MAX_BRACKETS = 100
"""Spark's parser recurses for each bracket, and its stack is limited."""
_STRING = {True: r"{0}(?:[^{0}\\]|\\.)*{0}", False: r"{0}[^{0}]*{0}"}
"""The pattern of a string, by whether a backslash escapes a quote."""


def _tokens_of(single: bool, double: bool) -> re.Pattern[str]:
    strings = "|".join(
        ["[rR]'[^']*'", r"[rR]\"[^\"]*\"", _STRING[single].replace("{0}", "'"), _STRING[double].replace("{0}", '"')]
    )
    return re.compile(
        rf"[ \t\r\n]*(?:(?P<quoted>{strings}|`(?:[^`]|``)*`)|(?P<comment>--|/\*)|(?P<word>[A-Za-z0-9_]+)"
        r"|(?P<operator>[-()\[\],.+*/%=<>!|&^~:])|(?P<other>\S)|$)",
        re.DOTALL,
    )


_READINGS = (_tokens_of(single=True, double=True), _tokens_of(single=True, double=False), _tokens_of(single=False, double=False))


_NO_TOKENS = frozenset("'\"`\\")
"""No token of Spark starts with a backslash or an unclosed quote."""


class _Token(NamedTuple):
    kind: str
    text: str


def beyond_row(sql: str) -> str | None:
    """Return why a SQL text is more than an expression over a row, in words that follow the name of its key, or None.

    >>> beyond_row("sum(price * quantity)"), beyond_row("lower(trim(BOTH FROM city))"), beyond_row("max(`values`)")
    (None, None, None)
    >>> print(beyond_row("reflect('java.lang.System', 'getenv', 'HOME')"))
    must be an expression over the columns of a row: reflect() is not a function that SQL of a job file may call. Call it in a \
view that the job reads
    >>> print(beyond_row("price > (SELECT avg(price) FROM shop.items)"))
    must be an expression over the columns of a row: SELECT begins a query. Join in a table that the job reads; write a \
column of that name in backticks
    """
    if "${" in sql:
        return _refused("Spark puts settings and environment variables in the place of ${...}")
    for reading in _READINGS:
        tokens = list(_tokens(sql, reading))
        if reading is not _READINGS[0] and tokens and tokens[-1].text in _NO_TOKENS:
            continue
        why = _wrong(tokens)
        if why is not None:
            return _refused(why)
    return None


def _refused(why: str) -> str:
    return f"must be an expression over the columns of a row: {why}"


def _tokens(sql: str, reading: re.Pattern[str]) -> Iterator[_Token]:
    for match in reading.finditer(sql):
        if match.lastgroup is not None:
            yield _Token(match.lastgroup, match[match.lastgroup])
            if match.lastgroup in ("comment", "other"):
                return  # refused anyway, and the text after an open quote would be searched again for each letter


def _wrong(tokens: list[_Token]) -> str | None:
    owners: list[str] = []  # the word before each open bracket
    commas: list[int] = []  # the number of completed arguments in each open bracket
    before = _Token("", "")
    for place, token in enumerate(tokens):
        why = _wrong_token(token, before, owners)
        if why is None and token.text == "(":
            why = _wrong_call(before, tokens[place - 2] if place > 1 else before)
            owners.append(_name(before))
            commas.append(0)
        elif token.text == ")" and owners:
            owners.pop()
            commas.pop()
        elif token.text == "," and owners:
            commas[-1] += 1
            if _TAKES_TYPES.get(owners[-1]) == commas[-1]:
                why = _wrong_type(owners[-1], tokens[place + 1 : place + 3])
        if why is not None:
            return why
        before = token
    return None


def _wrong_token(token: _Token, before: _Token, owners: list[str]) -> str | None:
    """Return why a token is refused in any position, or None."""
    word = token.text.lower()
    if token.kind == "comment":
        return f"it has a comment ({token.text}); write it after a # on a separate line of the job file"
    if token.kind == "other":
        unclosed = ", and a quote does not end" if token.text in "'\"`" else ""
        return f"{token.text!a} is not allowed outside of quotes{unclosed}"
    if token.kind == "word" and word in _QUERY and not _is_harmless(word, before, owners):
        return f"{word.upper()} begins a query. Join in a table that the job reads; write a column of that name in backticks"
    return f"it has more than {_MAX_BRACKETS} open brackets" if len(owners) > _MAX_BRACKETS else None


def _wrong_type(function: str, argument: list[_Token]) -> str | None:
    text, end = (*argument, _Token("", ""), _Token("", ""))[:2]
    if _TYPES.fullmatch(text.text) and end.text in (",", ")"):
        return None
    return f"{function}() takes types as plain text, such as 'a INT, b STRING' (in JSON they may contain SQL)"


def _is_harmless(word: str, before: _Token, owners: list[str]) -> bool:
    """Return whether a query word is harmless here: ``place.table``, ``extract(year FROM at)``, ``IS DISTINCT FROM``."""
    if before.text == ".":
        return True
    return word == "from" and (before.text.lower() == "distinct" or bool(owners and owners[-1] in _TAKES_FROM))


def _name(token: _Token) -> str:
    return (token.text.lstrip("rR")[1:-1] if token.kind == "quoted" else token.text).lower()


def _wrong_call(name: _Token, before: _Token) -> str | None:
    """Return why a bracket must not follow a token, or None."""
    if name.kind not in ("word", "quoted"):
        return None
    function = _name(name)
    if before.text == ".":
        return f"{ascii(function)[1:-1]}() is called by more than its plain name. Call it in a view that the job reads"
    if function in ALLOWED or (name.kind == "word" and function in _BEFORE_BRACKET):
        return None
    return f"{ascii(function)[1:-1]}() is not a function that SQL of a job file may call. Call it in a view that the job reads"
