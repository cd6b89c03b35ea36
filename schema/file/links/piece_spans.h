// In which pieces the bytes of a joined tensor lie. Used where one is read, and where one is written as a whole.
#pragma once

#include <algorithm>
#include <cstddef>

namespace genesis::file {

// Pieces of `bytes` bytes each, of which `each` neighbours, a set, are one behind the other; every set has an equal part of each of
// the tensor's `runs` equal runs, in their order.
struct PieceOrder {
  size_t pieces, each, bytes, runs;

  // body(piece, first, count): `count` bytes of that piece from `first` on come next.
  template <class Body>
  void for_spans(const Body& body) const {
    const size_t part = each * bytes / runs;  // that a set has of a run
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
