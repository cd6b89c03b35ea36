// The places of tokens in their texts and in a cache, which layers of language models ask for.
#pragma once

#include "schema/graph/graph.h"

namespace genesis::models {

struct Positions {
  Value ids;    // position of each token: i64[seq], or [rows, seq] if each row has its own
  Value start;  // i64[rows]: cache position of the first new entry; empty: no cache (loss, forward)
  Value count;  // i64[rows]: number of tokens of each row that are not padding; empty: all
  Value row;    // i64[]: the cache row that the only row of the batch uses; empty: the batch has all rows
  Value first;  // i64[rows, seq]: first token that each token sees; empty: the first one of its row
  Value text_length;  // i64[rows]: length of the whole text; empty: it ends with this chunk

  // Returns the number of tokens of the text, [] or [rows]: `text_length` if it is given, else the number of tokens so far. For
  // rows that hold several texts, it is the length of the longest text in each row.
  Value length(Graph& graph) const;
};

}  // namespace genesis::models
