"""The evaluation: data sets, systems and protocols, what they measure as rows of a file, and a report made of the rows.

``symsgd bench PROTOCOL`` measures and reports; docs/evaluation.md shows how. A *protocol* (``protocols``, one a file)
takes *systems* (``systems``) through *data sets* (``datasets``) and yields *rows* (``records``), written as they come.
``report`` turns rows into tables and charts, and those into a page; ``compare`` holds two runs against each other.
Nothing in ``report`` measures, nothing in ``protocols`` prints.

``single`` has benchmarks of one table each, for developers: ``python -m symsgd.bench`` or ``make bench``. All of them
say the machine, hold an honest baseline in the same run and give ratios.
"""
