"""Melodies as MIDI files, through mido."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from lrpt.datasets.abc.symbols import Symbol
from lrpt.errors import UsageError

TICKS = 480
"""Ticks of a quarter note: every length with a denominator that divides it is exact."""
VELOCITY = 80
NOTES = range(128)
"""Pitches of MIDI."""


def midi_file(melodies: Sequence[Sequence[Symbol]], tempo: int = 120) -> bytes:
    """Return a MIDI file that plays melodies one after the other, with a rest of four quarter notes between them.

    Args:
      melodies: notes, rests and bars of each; bars are silent and last no time.
      tempo: quarter notes per minute.

    Raises:
      UsageError: mido is not installed, or a pitch is no MIDI note.
    """
    mido = _mido()
    if outside := [symbol.pitch for melody in melodies for symbol in melody if symbol.pitch is not None and symbol.pitch not in NOTES]:
        raise UsageError(f"a note has the pitch {outside[0]}: MIDI has 0 to {NOTES[-1]}; write the melody as .abc")
    track = mido.MidiTrack([mido.MetaMessage("set_tempo", tempo=mido.bpm2tempo(tempo))])
    waited = 0
    for melody in melodies:
        for symbol in melody:
            ticks = round(symbol.length * TICKS)
            if symbol.pitch is None:
                waited += ticks
            else:
                track.append(mido.Message("note_on", note=symbol.pitch, velocity=VELOCITY, time=waited))
                track.append(mido.Message("note_off", note=symbol.pitch, time=ticks))
                waited = 0
        waited += 4 * TICKS
    content = BytesIO()
    mido.MidiFile(type=0, ticks_per_beat=TICKS, tracks=[track]).save(file=content)
    return content.getvalue()


def _mido() -> Any:
    try:
        import mido  # an extra  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UsageError("MIDI files need mido, which is not installed: pip install -e '.[midi]', or name a .abc file") from None
    return mido
