// Says in which pieces the bytes of a joined tensor lie, for reading it and for writing it as a whole.
#pragma once

#include <algorithm>
#include <cstddef>

namespace genesis::file {

// The tensor consists of `runs` equal runs. Its pieces have `bytes` bytes each; `each` consecutive pieces form a set. Every set,
// its pieces joined one after the other, holds an equal share of each run, in order.
struct PieceOrder {
  size_t pieces, each, bytes, runs;

  // Calls body(piece, first, count) for each span of the tensor in order: `count` bytes of the piece, starting at `first`.
  template <class Body>
  void for_spans(const Body& body) const {
    const size_t part = each * bytes / runs;  // bytes that a set has of a run
    for (size_t run = 0; run < runs; ++run)
      for (size_t set = 0; set < pieces; set += each)
        for (size_t at = run * part; at < (run + 1) * part;) {
          const size_t first = at % bytes, count = std::min(bytes - first, (run + 1) * part - at);
          body(set + at / bytes, first, count);
          at += count;
        }
  }
};

}  // namespace genesis::file
