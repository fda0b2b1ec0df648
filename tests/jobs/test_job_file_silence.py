"""Job files with windows that close on silence or at the end of a run."""

from __future__ import annotations

import pytest

from panestream.windowing.watermarks import WatermarkStrategy
from tests.jobs.test_job_file_windows import EVERY, TIME, text_of

MINUTE = "[window]\ntype = 'tumbling'\nsize = '1 minute'\n"
CLOSING = TIME + "closing_after = '30 seconds'\n"
AT_END = "[trigger]\nfire_at_end = true\n"


def test_silence_timeout_becomes_part_of_the_watermark_strategy(job_of):
    job = job_of(text_of(MINUTE, time=CLOSING, after=EVERY))
    assert job.watermark.recipe == WatermarkStrategy.for_bounded_out_of_orderness("5 seconds").closing_after("30 seconds")
    assert not job.trigger.fire_at_end


def test_firing_at_the_end_of_a_run_becomes_part_of_the_trigger(job_of):
    job = job_of(text_of(MINUTE, time=CLOSING, after=AT_END))
    assert (job.trigger.fire_at_end, job.trigger.spark) == (True, {"availableNow": True})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (text_of(MINUTE, time=CLOSING), "closing_after: needs a query that keeps running, trigger.every"),
        (text_of(MINUTE, after=EVERY + "fire_at_end = true\n"), "trigger.fire_at_end: 'every' runs without end"),
        (text_of(MINUTE, before="mode = 'batch'\n", after=AT_END), "fire_at_end: a batch closes all windows at its end"),
        (
            text_of(MINUTE, time=CLOSING.replace("30 seconds", "1 us"), after=EVERY),
            "watermark.closing_after: must be whole milliseconds",
        ),
        (
            text_of(
                MINUTE,
                time=CLOSING.replace("delay = '5 seconds'", "").replace('delay = "5 seconds"', "strategy = 'none'"),
                after=EVERY,
            ),
            "watermark.closing_after: moves the watermark, but strategy 'none' does not have one",
        ),
    ],
    ids=["a run that ends", "a run without end", "a batch", "microseconds", "no watermarks"],
)
def test_contradictory_silence_settings_are_reported(complaint, text, said):
    assert said in complaint(text)
