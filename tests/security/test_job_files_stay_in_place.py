"""A value in a job file means only the value of its key. It cannot reach elsewhere through paths, names, options, SQL or functions."""

from __future__ import annotations

import pytest

from panestream.errors import JobError
from panestream.jobs.functions import find
from panestream.jobs.loading import load_job
from panestream.jobs.sql import ALLOWED, REFUSED, beyond_row
from tests.engine.costs import python_calls

JOB = """
key = ["user_id"]
[source]
format = "csv"
path = "clicks"
schema = "user_id BIGINT, city STRING, price DOUBLE, at TIMESTAMP"
where = "price > 0"
columns = {{ revenue = "price * 2" }}
[event_time]
column = "at"
[watermark]
delay = "5 seconds"
[window]
type = "tumbling"
size = "1 minute"
{function}
[sinks.main]
format = "parquet"
path = "out/main"
"""
AGGREGATE = '[aggregate]\ntotal = "sum(price)"'
PLAIN = JOB.format(function=AGGREGATE)


@pytest.fixture
def load(tmp_path):
    def loaded(text):
        path = tmp_path / "job.toml"
        path.write_text(text, "utf-8")
        return load_job(path)

    return loaded


def job_with(before, after):
    assert before in PLAIN
    return PLAIN.replace(before, after)


def test_plain_job_is_accepted(load):
    assert load(PLAIN).job.key == ("user_id",)


# -- SQL -------------------------------------------------------------------------------------------------------------------

BEYOND = [
    "reflect('java.lang.Runtime', 'getRuntime')",
    "REFLECT ('java.lang.System', 'getenv', 'HOME')",
    "`reflect`('java.lang.System', 'exit', 1)",
    '"reflect"(1)',
    "system.builtin.reflect('a', 'b')",
    "builtin.`java_method`('a', 'b')",
    "try_reflect('java.lang.System', 'getProperty', 'user.home')",
    "price + length(java_method('a', 'b'))",
    "(SELECT max(price) FROM shop.items)",
    "(SELECT count(*) FROM text.`/etc/passwd`)",
    "price IN (SELECT price FROM shop.items)",
    "price IN (VALUES 1, 2)",
    "EXISTS (TABLE shop.items)",
    "EXISTS (FROM shop.items)",
    "EXISTS (FROM (shop.items))",
    "EXISTS (WITH a AS (VALUES (1)) TABLE a)",
    "(MAP price USING 'cat' FROM shop.items)",
    "(REDUCE price USING 'cat' FROM shop.items)",
    "price = '${env:HOME}'",
    "'${spark.hadoop.fs.s3a.secret.key}'",
    "${system:user.home}",
    "IDENTIFIER('re' || 'flect')('a', 'b')",
    "from_protobuf(city, 'message', '/etc/passwd')",
    "from_avro(city, '{}', map('avroSchemaUrl', 'file:///etc/passwd'))",
    "1 /* here */ + 2",
    "price -- (\n > 0",
    "$$ ' $$",
    "'\\' || reflect('a', 'b') || ''",
    "r'\\' || reflect('a', 'b') || 'x'",
    # Letters that Java folds to ASCII.
    "(\u017felect max(price) from text.`/etc/passwd`)",
    "\u0131dent\u0131f\u0131er('reflect')('java.lang.System', 'getProperty', 'user.home')",
    "max(\u0131dent\u0131f\u0131er('java_method')('a', 'b'))",
    "exists(\u017felect 1 from text.`/etc/passwd`)",
    "(w\u0131th t as (values 1) table t)",
    "(value\u017f 1)",
    "`\u017fome`('a') || reflec\uff54('a')",
    "\uff52\uff45flect('a', 'b')",
    "upper\u00a0(city) || \u2003reflect('a')",
    # Functions that open a file or an address.
    "from_xml(city, 'a INT', map('rowValidationXSDPath', '/etc/passwd'))",
    "schema_of_xml('<a/>', map('rowValidationXSDPath', '/etc/passwd'))",
    "xpath_string(city, 'a')",
    "`xpath`('<!DOCTYPE a SYSTEM \"http://example.org/\"><a/>', 'a')",
    # SQL in the metadata of types.
    """from_json(city, r'{"type":"struct","fields":[{"metadata":{"EXISTS_DEFAULT":"xpath_string(1)"}}]}')""",
    "from_json(city, '\\\\u007b}')",
    "from_json(city, concat('{', '}'))",
    "from_json(city, 'a INT' || '')",
    "from_csv(city, r'{}')",
    "\"from_json\"(city, r'{}')",
    "`from_json`(upper(city), r'{}')",
    "from_json(schema => '{}', json => city)",
    "variant_get(v, '$', '{}')",
    "try_variant_get(v, concat('$', ','), '{}', 1)",
    # A query that starts like a column.
    "price IN (VALUES -1 UNION TABLE shop.items)",
    "price IN (values = 1 UNION ALL SELECT 1)",
    "(table)",
    "(FROM shop.items |> AGGREGATE count(*))",
    "((FROM shop.items))",
    "trim(upper(FROM shop.items))",
    "exists(FROM shop.items) IS DISTINCT FROM true",
    # Names that are concatenated, or called in another way.
    "upper.reflect('a', 'b')",
    "builtin . upper(city)",
    "shop.db.my_function(city)",
    "my_function(city)",
    "range(10)",
    "sql_keywords()",
    "measure(price)",
    "{fn reflect('a', 'b')}",
    "city @ 1",
    "price; DROP TABLE a",
    "#reflect('a')",
    "city = \\'a\\'",
    "'open || reflect('a', 'b')",
    "`open || reflect('a', 'b')",
    "\"\\\" || '\\\\' || reflect('a', 'b') || '\\'\"'",
    "(" * 101 + "1" + ")" * 101,
    "1 --",
    "/*+ BROADCAST(a) */ 1",
    "\"\\\" || reflect('a', 'b') || \"\"",
]
OF_ROW = [
    "price * quantity",
    "sum(`values`) + max(`table`) - min((`from`))",
    "trim(BOTH upper('x') FROM lower(city))",
    "count(DISTINCT (city)) FILTER (WHERE (price > 0))",
    "listagg(city) WITHIN GROUP (ORDER BY (price))",
    "CAST(price AS DECIMAL(10, 2)) :: VARCHAR(3)",
    "overlay(city PLACING 'x' FROM (1) FOR 2)",
    "`gr\u00f6\u00dfe` || '\u017felect'",
    "city LIKE ANY ('a%', 'b') AND NOT (price BETWEEN (1) AND (2))",
    "a BIGINT NOT NULL COMMENT 'x', b STRUCT<c: ARRAY<DECIMAL(10,2)>>",
    "try_cast(city AS INT) DIV 2 % 3 ^ 1 | ~1",
    "details:items[0].price::double",
    "from_json(concat(city, ','), 'a INT, b ARRAY<STRUCT<c: STRING>>', map('mode', 'FAILFAST')).a",
    "from_csv(city, 'a INT')",
    "variant_get(parse_json(city), '$.a', 'int')",
    "'\\\\' || \"it's\" || 'say \"x\"'",
    "(" * 50 + "1" + ")" * 50,
    "extract(year FROM at)",
    "trim(BOTH 'x' FROM city)",
    "substring(city FROM 2 FOR 3)",
    "CASE WHEN price > 0 THEN 'select' ELSE '(from t)' END",
    "map('a', 1)['a']",
    "(map('a', 1))['a']",
    "(reduce(prices, 0, (a, b) -> a + b))",
    "transform(prices, x -> x + 1)",
    "city IS DISTINCT FROM 'x'",
    "'it''s -- fine /* and */ $5'",
    "price - -1",
    r"city = 'it\'s' OR city IN ('a\'b', 'don\'t')",
    r'city = "say \"x\""',
    "shop.city",
    "`select` + `reflect`",
    "reflect + 1",
    "identifier = 'x'",
    "named_struct('table', 1).table",
]


@pytest.mark.parametrize("sql", BEYOND)
def test_sql_that_reaches_beyond_the_row_is_refused(sql):
    assert beyond_row(sql).startswith("must be an expression over the columns of a row: ")


def test_open_quote_is_searched_once():
    few, many = (python_calls(lambda size=size: beyond_row("\\'" * size + "'"))[0] for size in (100, 10_000))
    assert many == few


@pytest.mark.spark
def test_every_function_of_spark_is_allowed_or_refused(spark):
    """Only Spark can list its functions. The lists may contain functions of other versions."""
    functions = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    words = {name for name in functions if name.isidentifier()}
    keywords = {"and", "between", "case", "div", "ilike", "in", "like", "not", "or", "regexp", "rlike", "when"}
    assert words - keywords == words & (ALLOWED | REFUSED)
    assert not ALLOWED & REFUSED
    assert all(beyond_row(f"{name}(price)") is None for name in ALLOWED)
    assert all(beyond_row(f"{name}(price)") for name in REFUSED)


@pytest.mark.parametrize("sql", OF_ROW)
def test_sql_over_the_columns_of_a_row_is_accepted(sql):
    assert beyond_row(sql) is None


WRONG = "upper(reflect('java.lang.System', 'lineSeparator'))"
PLACES = [
    ("source.where", '"price > 0"', f'"{WRONG}"'),
    ("source.columns.revenue", '"price * 2"', f'"{WRONG}"'),
    ("aggregate", '"sum(price)"', f'"sum({WRONG})"'),
    ("event_time.column", 'column = "at"', f'column = "{WRONG}"'),
    ("key", '["user_id"]', f'["{WRONG} AS user_id"]'),
    ("watermark.per_partition", 'delay = "5 seconds"', f'delay = "5 seconds"\nper_partition = "{WRONG}"'),
    ("source.schema", "price DOUBLE", f"price STRING DEFAULT {WRONG}"),
    ("window.gap_column", 'type = "tumbling"\nsize = "1 minute"', f'type = "session"\ngap_column = "{WRONG}"'),
]


@pytest.mark.parametrize(("key", "before", "after"), PLACES, ids=[key for key, _, _ in PLACES])
def test_every_key_with_sql_refuses_reflect(load, key, before, after):
    with pytest.raises(JobError, match=rf"job.toml:\d+: {key}.*: must be an expression over the columns of a row: reflect\(\)"):
        load(job_with(before, after))


def test_time_format_refuses_variables(load):
    with pytest.raises(JobError, match=r"event_time.format: Spark puts settings and environment variables in the place of"):
        load(job_with('column = "at"', 'column = "at"\nformat = "yyyy\'${env:HOME}\'"'))


# -- places ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["../out", "..", "a/../../out", "./../out", "../../../../etc/cron.d", "~/out", "~root"])
@pytest.mark.parametrize("key", ["source.path", "sinks.main.path", "checkpoint", "metrics.json_lines"])
def test_relative_path_out_of_the_folder_of_the_job_file_is_refused(load, key, path):
    texts = {
        "source.path": job_with('"clicks"', f'"{path}"'),
        "sinks.main.path": job_with('"out/main"', f'"{path}"'),
        "checkpoint": f'checkpoint = "{path}"\n{PLAIN}',
        "metrics.json_lines": f'{PLAIN}\n[metrics]\njson_lines = "{path}"',
    }
    with pytest.raises(JobError, match=rf"{key}: (leaves the folder of the job file|begins with a tilde)"):
        load(texts[key])


@pytest.mark.parametrize("path", ["/data/out", "s3a://bucket/out", "file:///data/out"])
def test_absolute_path_is_accepted(load, path):
    assert load(job_with('"out/main"', f'"{path}"')).job.sinks.main.path == path


def test_symbolic_link_in_a_path_is_resolved(load, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert load(job_with('"out/main"', '"link/main"')).job.sinks.main.path == str(tmp_path / "elsewhere" / "main")


@pytest.mark.parametrize("path", ["out\\u0000main", "out\\nmain", "out\\u202emain", "", "  "])
def test_empty_path_or_control_characters_are_refused(load, path):
    with pytest.raises(JobError, match=r"sinks.main.path: (has control characters|is empty)"):
        load(job_with('"out/main"', f'"{path}"'))


@pytest.mark.parametrize("option", ["path", "PATH", "paths"])
def test_options_with_a_second_path_are_refused(load, option):
    for text in (
        f'{PLAIN}options = {{ {option} = "/etc" }}',
        job_with('where = "price > 0"', f'options = {{ {option} = "/etc" }}'),
    ):
        with pytest.raises(JobError, match=r"options.*: is not an option"):
            load(text)


@pytest.mark.parametrize("table", ["../x", "a.b.c.d", "`a`", "a;b", "parquet.`/etc`", "a b", "a/b", "*"])
def test_table_name_with_other_characters_is_refused(load, table):
    text = job_with('format = "parquet"\npath = "out/main"', f'format = "delta"\ntable = "{table}"')
    with pytest.raises(JobError, match=r"sinks.main.table: must be table, db.table or catalog.db.table"):
        load(text)


# -- functions -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["os:system", "subprocess:call", "builtins:exec", "importlib:import_module", "os.path:exists"])
def test_function_of_the_standard_library_is_refused(load, tmp_path, name):
    loaded = load(JOB.format(function=f'[process]\nfunction = "{name}"\nschema = "n BIGINT"'))
    with pytest.raises(JobError, match=r"process.function: '\w+' is a module of Python"):
        find(loaded.job.process, tmp_path, loaded.place("process", "function"))


@pytest.mark.parametrize(
    "name", ["../evil:run", "/tmp/evil:run", "a b:c", "os:system('x')", "os;x:y", "a:b:c", "évil:run", "a:__class__.x"]
)
def test_function_reference_must_be_a_module_and_a_name(load, name):
    with pytest.raises(JobError, match=r"process.function: must be a module and a name in it"):
        load(JOB.format(function=f'[process]\nfunction = "{name}"\nschema = "n BIGINT"'))


# -- the file itself -------------------------------------------------------------------------------------------------------


def test_yaml_tag_that_creates_objects_is_refused(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("key: !!python/object/apply:os.system ['touch pwned']\n", "utf-8")
    with pytest.raises(JobError, match="not valid YAML"):
        load_job(path)
    assert [each.name for each in tmp_path.iterdir()] == ["job.yaml"]
