#include "backends/common/moves/moves.h"

#include <cstring>

namespace genesis {

Box whole_box(std::span<const int64_t> dims) {
  return {std::vector<int64_t>(dims.size(), 0), std::vector<int64_t>(dims.begin(), dims.end()),
          std::vector<int64_t>(dims.size(), 1)};
}

StridedCopy copy_box(std::span<const int64_t> to_dims, const Box& to, std::span<const int64_t> from_dims,
                     const Box& from, int64_t element) {
  std::vector<int64_t> to_strides = dense_strides(to_dims), from_strides = dense_strides(from_dims);
  int64_t to_offset = 0, from_offset = 0;
  for (size_t i = 0; i < to_strides.size(); ++i) {
    if (to.length[i] == 0) continue;  // nothing to copy, so any start is valid
    to_offset += to.start[i] * to_strides[i];
    from_offset += from.start[i] * from_strides[i];
    if (to.length[i] == 1) continue;  // one element, so the step does not matter
    to_strides[i] *= to.step[i];
    from_strides[i] *= from.step[i];
  }
  return make_strided_copy(to.length, to_strides, from_strides, element, to_offset, from_offset);
}

void surround_with_pattern(Moves& moves, std::span<const int64_t> dims, const Box& box, int64_t element) {
  Box side = whole_box(dims);
  const std::vector<int64_t> nowhere(dims.size(), 0);
  const auto add = [&] {
    const Box point{nowhere, side.length, nowhere};
    StridedCopy copy = copy_box(dims, side, nowhere, point, element);
    if (!copy.empty) moves.moves.push_back({Moves::kPattern, 0, copy});
  };
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t end = box.start[i] + box.length[i];
    side.start[i] = 0, side.length[i] = box.start[i];
    add();
    side.start[i] = end, side.length[i] = dims[i] - end;
    add();
    side.start[i] = box.start[i], side.length[i] = box.length[i];
  }
}

std::array<std::byte, 8> pattern_of(DType dtype, Scalar value) {
  std::array<std::byte, 8> pattern{};
  dispatch(dtype, [&]<class T>(TypeTag<T>) {
    T element;
    if constexpr (std::is_same_v<T, bool>)
      element = value.as_double() != 0;
    else if constexpr (std::is_integral_v<T>)
      element = static_cast<T>(value.as_integer());
    else
      element = static_cast<T>(value.as_double());
    std::memcpy(pattern.data(), &element, sizeof(T));
  });
  return pattern;
}

}  // namespace genesis
