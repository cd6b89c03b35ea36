#include "schema/core/shape.h"

#include <algorithm>

#include "schema/core/error.h"
#include "schema/core/open_size.h"

namespace genesis {

Shape Shape::parse(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']')
    fail("'{}' is not a shape: expected [4,batch]", text);
  text = text.substr(1, text.size() - 2);
  Shape shape;
  int depth = 0;  // commas within parentheses belong to functions such as min(batch,8)
  size_t begin = 0;
  for (size_t i = 0; i <= text.size() && !text.empty(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      shape.push_back(Dim::parse(text.substr(begin, i - begin)));
      begin = i + 1;
    } else {
      depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    }
  }
  return shape;
}

bool Shape::is_constant() const { return std::ranges::all_of(dims_, &Dim::is_constant); }

std::vector<int64_t> Shape::sizes() const {
  std::vector<int64_t> sizes;
  for (const Dim& dim : dims_) sizes.push_back(dim.value());
  return sizes;
}

Dim Shape::numel() const {
  Dim product(1);
  for (const Dim& dim : dims_) product = product * dim;
  return product;
}

Shape Shape::substitute(const Bindings& bindings) const {
  Shape result;
  for (const Dim& dim : dims_) result.push_back(dim.substitute(bindings));
  return result;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (size_t i = 0; i < dims_.size(); ++i) text += (i ? "," : "") + dims_[i].to_string();
  return text + "]";
}

std::string TensorType::to_string() const { return std::string(name_of(dtype)) + shape.to_string(); }

int normalize_axis(int64_t axis, int rank, std::string_view what) {
  const int64_t normal = axis < 0 ? axis + rank : axis;
  if (normal < 0 || normal >= rank) fail("{} {} is out of range for rank {}", what, axis, rank);
  return static_cast<int>(normal);
}

Shape broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<Dim> dims(static_cast<size_t>(rank));
  for (int i = 1; i <= rank; ++i) {
    const Dim x = i <= a.rank() ? a[a.rank() - i] : Dim(1), y = i <= b.rank() ? b[b.rank() - i] : Dim(1);
    if (!(x == y) && !(x == Dim(1)) && !(y == Dim(1))) {
      const std::string problem =
          fmt::format("shapes {} and {} do not broadcast: sizes {} and {} differ and neither is 1",
                      a.to_string(), b.to_string(), x.to_string(), y.to_string());
      if (x.is_constant() && y.is_constant()) throw Error(problem);
      throw OpenSize(problem);
    }
    dims[static_cast<size_t>(rank - i)] = x == Dim(1) ? y : x;
  }
  return Shape(std::move(dims));
}

}  // namespace genesis
