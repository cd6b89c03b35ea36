// Ops that find as many things as the data has: the places of nonzero elements, and the boxes that overlap no better one. Their results
// have the size of the most that there can be, and a count says how many rows are meant, so that memory is known before a run.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {
namespace ops {

// x of any dtype and shape [...]. Outputs: places i64 [elements of x, axes of x], whose first rows are the indices of the nonzero elements
// in row-major order, and the others 0; the number of these, i64[]. NaN is not zero.
struct Nonzero : NoAttributes {
  static constexpr OpInfo info{.name = "nonzero",
                               .doc =
                                   "The indices of the nonzero elements of x, i64 [elements, axes], in "
                                   "row-major order, behind them rows "
                                   "of 0; and their number, i64[].",
                               .precision = Precision::kExact};
  std::vector<TensorType> infer(Types in) const;
};

// Non-maximum suppression, as ONNX has it. boxes [batch, boxes, 4] and scores [batch, classes, boxes], both f32 or f64. For each batch entry
// and class, takes the best box whose score is above `score_threshold` until `max_boxes` are taken or none is left, and leaves out all
// whose intersection over union with a taken one is above `iou_threshold`. The first of equal scores is better. A box is [y1, x1, y2, x2]
// with any two opposite corners, or [x, y, width, height] with its center if `center`. Outputs: i64 [batch * classes * max_boxes, 3]: the
// entry, the class and the box of those that are taken, and then rows of 0; the number of these, i64[].
struct Nms {
  static constexpr OpInfo info{.name = "nms",
                               .doc =
                                   "Non-maximum suppression of boxes [batch, boxes, 4] by scores [batch, "
                                   "classes, boxes]: the entry, the class "
                                   "and the box of those that are taken, i64 [batch * classes * "
                                   "max_boxes, 3], behind them rows "
                                   "of 0; and their number, i64[]. `center`: a box is [x, y, width, height].",
                               .inputs = {2, 2},
                               .precision = Precision::kF32};
  int64_t max_boxes = 0;
  double iou_threshold = 0, score_threshold = -1e300;
  bool center = false;
  static void fields(auto& self, auto&& visit) {
    visit("center", self.center), visit("iou_threshold", self.iou_threshold);
    visit("max_boxes", self.max_boxes), visit("score_threshold", self.score_threshold);
  }
  std::vector<TensorType> infer(Types in) const;
};

}  // namespace ops

// The result of such an op is rows [most, ...], of which the first `count`, i64[], are meant.
struct BoundedRows {
  Value rows, count;
};

BoundedRows nonzero(Value x);
BoundedRows non_max_suppression(Value boxes, Value scores, const ops::Nms& options);

}  // namespace genesis
