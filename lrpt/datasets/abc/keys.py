"""Key signatures: the notes that a key raises and lowers."""

import re

ORDER_OF_SHARPS = "FCGDAEB"
FIFTHS = {"F": -1, "C": 0, "G": 1, "D": 2, "A": 3, "E": 4, "B": 5}
MODES = {"": 0, "maj": 0, "ion": 0, "m": -3, "min": -3, "aeo": -3, "mix": -1, "dor": -2, "phr": -4, "lyd": 1, "loc": -5}
ALTERATIONS = {"": 0, "=": 0, "^": 1, "^^": 2, "_": -1, "__": -2}

_TONIC = re.compile(r"([A-G])([#b]?)(?!\w*=)\s*(m(?![a-z])|(?:maj|ion|min|aeo|mix|dor|phr|lyd|loc)[a-z]*)?(?=\W|exp|$)", re.IGNORECASE)
_ACCIDENTAL = re.compile(r"(?<![\w=])(\^\^|\^|__|_|=)([a-gA-G])(?!\w)")
_SETTING = re.compile(r"\w+\s*=\s*\S+")


def key_signature(field: str) -> dict[str, int] | None:
    """Return the semitones by which each letter is altered, given the contents of a field K: (ABC 2.1, section 3.1.14).

    Understood are tonics with modes, of which only the first three letters count; 'none'; 'HP' and 'Hp' (Highland bagpipe: F and C sharp);
    accidentals that modify a key ('D Phr ^f'); and accidentals without a key ('D exp _b ^f'). Clefs and transpositions are ignored.

    Returns:
      The alterations by letter, or None if the field contains no key, only clefs and similar settings.

    Raises:
      ValueError: the field contains neither; the message says what is expected.
    """
    text = field.strip()
    explicit = {letter.upper(): ALTERATIONS[sign] for sign, letter in _ACCIDENTAL.findall(text)}
    if text[:2] in ("HP", "Hp"):
        return {"F": 1, "C": 1} | explicit
    if not text or text[:4].lower() == "none":
        return explicit
    tonic = _TONIC.match(text) if text[0].isupper() else None
    if tonic is None:
        if explicit:
            return explicit
        if _SETTING.match(text) or text.split()[0].rstrip("-+_^8") in ("treble", "bass", "alto", "tenor", "perc"):
            return None
        raise ValueError(f"the key is '{field.strip()}', expected a tonic from A to G and a mode, such as K:Ador")
    if re.search(r"\bexp\b", text):
        return explicit
    return _of_mode(field, *tonic.groups()) | explicit


def _of_mode(field: str, letter: str, sign: str, mode: str | None) -> dict[str, int]:
    fifths = FIFTHS[letter.upper()] + 7 * {"#": 1, "b": -1, "": 0}[sign] + MODES[(mode or "").lower()[:3]]
    if abs(fifths) > 7:
        raise ValueError(f"the key is '{field.strip()}', which has {abs(fifths)} sharps or flats, expected at most 7")
    altered = ORDER_OF_SHARPS[:fifths] if fifths > 0 else ORDER_OF_SHARPS[::-1][: -fifths or 0]
    return dict.fromkeys(altered, 1 if fifths > 0 else -1)
