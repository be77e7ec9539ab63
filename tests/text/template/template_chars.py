"""template_chars.py: what Python's str says of characters, as one number each: the table of
test_template_chars.c. Unicode 14, as Python 3.11 has it."""
import unicodedata

PARTS = [(0, 0xD800), (0xE000, 0x32400), (0xE0000, 0xE0200), (0x10FFFE, 0x110000)]
MASK = (1 << 64) - 1


def digest(values_of):
    """FNV-1a of 32 bits at a time."""
    sum = 0xCBF29CE484222325
    for first, end in PARTS:
        for code in range(first, end):
            for value in values_of(chr(code)):
                sum = ((sum ^ value) * 0x100000001B3) & MASK
    return sum


def chars(text):
    return [len(text), *map(ord, text)]


TABLE = {
    "isspace": lambda c: [c.isspace()],
    "isalpha": lambda c: [c.isalpha()],
    "isdecimal": lambda c: [c.isdecimal()],
    "isdigit": lambda c: [c.isdigit()],
    "isnumeric": lambda c: [c.isnumeric()],
    "isalnum": lambda c: [c.isalnum()],
    "isprintable": lambda c: [c.isprintable()],
    "islower": lambda c: [c.islower()],
    "isupper": lambda c: [c.isupper()],
    "istitle": lambda c: [c.istitle() and not c.isupper()],
    "isidentifier": lambda c: [c.isidentifier(), ("a" + c).isidentifier()],
    "decimal": lambda c: [unicodedata.decimal(c, 99)],
    "sigma": lambda c: [("A" + c + "\u03a3").lower()[-1] == "\u03c2", (" " + c + "\u03a3").lower()[-1] == "\u03c2"],
    "lower": lambda c: chars(c.lower()),
    "upper": lambda c: chars(c.upper()),
    "title": lambda c: chars(c.title()),
    "casefold": lambda c: chars(c.casefold()),
}

if __name__ == "__main__":
    assert unicodedata.unidata_version == "14.0.0"
    for name, values_of in TABLE.items():
        print(f'        {{"{name}", of_{name}, UINT64_C(0x{digest(values_of):016X})}},')
