"""A reader of DWARF 2 to 5 that touches little more than what is asked of it.

From below to above: `sections`, `abbreviations`, `forms`, `entries`, `lists`,
`files`, `index`.
"""
