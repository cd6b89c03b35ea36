// Reading and writing by index. Indices are i32 or i64; an index out of range is reported by the run as an
// error that names the node (gather, scatter, index_select, embedding, class targets).
#pragma once

#include "schema/graph.h"

namespace genesis {

Value gather(Value x, int64_t axis, Value index);  // torch.gather
Value scatter(Value x, int64_t axis, Value index,
              Value source);  // torch.scatter; the last write in index order wins
Value scatter_add(Value x, int64_t axis, Value index,
                  Value source);                         // torch.scatter_add, summed in index order
Value index_select(Value x, int64_t axis, Value index);  // index 1-d
Value embedding(Value indices, Value weight,
                int64_t padding_idx = -1);  // rows of weight [num_embeddings, dim]

}  // namespace genesis
