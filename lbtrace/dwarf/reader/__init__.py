"""A lazy reader of DWARF 2 to 5.

The modules, from the lowest layer up: `sections`, `abbreviations`, `forms`, `entries`, `lists`,
`files`, `index`.
"""
