"""A store: rows, targets and weights in one file, of our own format, that is mapped and not read.

What it is for: training from data that is larger than memory, or is trained from often. Writing takes one pass over a
source in bounded memory; opening takes milliseconds and no memory. What follows from that:

- Each array has to be in one piece in memory, yet nobody knows how long any of them will be while all are written. So
  an array is a list of *extents* of the file, and a reader maps them one after the other into one range of addresses
  (``columns``, ``native/include/symsgd/mapping.hpp``).
- Rows can be appended while others read. New bytes go where no state that has been read so far looks: behind the used
  bytes of an array's last extent, and then into new extents. What counts is decided by 64 bytes, the superblock, which
  are written last (``layout``, ``disk``).
- A file lives longer than the disk under it. The table of contents has a checksum of every extent; opening checks all
  that is not rows, :meth:`Store.verify` the rows, at the speed of memory (``verify``).

One idea a file: ``layout`` the bytes, ``disk`` how they get there, ``columns`` one array, ``writer``, ``reader``,
``verify``, ``summary``.
"""

from symsgd.data.store.reader import Store, open_store
from symsgd.data.store.summary import Summary
from symsgd.data.store.writer import StoreWriter

__all__ = ["Store", "StoreWriter", "Summary", "open_store"]
