"""Debug information: prototypes of functions and types of values, from DWARF."""
