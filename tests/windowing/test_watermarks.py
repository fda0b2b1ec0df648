"""What a generator of the user's own emits."""

from __future__ import annotations

from panestream.windowing.watermarks import WatermarkOutput


def test_the_largest_watermark_remains():
    output = WatermarkOutput()
    assert output.watermark is None
    seen = []
    for timestamp in (-5, 7, 3, 8):
        output.emit_watermark(timestamp)
        seen.append(output.watermark)
    assert seen == [-5, 7, 7, 8]
