"""What users write after ``--arg`` and ``--where``: parsed, typed, made into fetches.

`syntax` turns text into a tree, `typing` finds where its parts lie in a given
function, `binding` makes a probe's fetches and conditions of them.
"""
