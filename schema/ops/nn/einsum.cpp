// einsum, lowered while the author writes the graph: to diagonals, sums and one product per pair of operands. It is no op of its
// own, so gradients and passes need no rule for it. Invariant: a Term's labels name the axes of its value one to one.
#include <algorithm>
#include <map>

#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

// A label per axis. Letters stand for themselves; the axes under '...' get the labels '0', '1', ... from the right, which no
// author can write.
using Labels = std::string;

struct Term {
  Value value;
  Labels labels;
};

bool has(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }

template <class Keep>
Labels filter(const Labels& labels, Keep&& keep) {
  Labels kept;
  std::ranges::copy_if(labels, std::back_inserter(kept), keep);
  return kept;
}

// --- reading the equation ---

struct Subscripts {
  Labels before, after;  // before and after the '...'
  bool ellipsis = false;
};

Subscripts parse_subscripts(std::string_view text) {
  Subscripts result;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      (result.ellipsis ? result.after : result.before) += c;
    } else if (text.substr(i, 3) == "...") {
      if (result.ellipsis) fail("'{}' has more than one '...'", text);
      result.ellipsis = true;
      i += 2;
    } else {
      fail("'{}' is not an index: expected letters and '...'", c);
    }
  }
  return result;
}

struct Equation {
  std::vector<Subscripts> inputs;
  std::optional<Subscripts> output;
};

Equation parse_equation(std::string text) {
  std::erase(text, ' ');
  Equation equation;
  const size_t arrow = text.find("->");
  if (arrow != std::string::npos)
    equation.output = parse_subscripts(std::string_view(text).substr(arrow + 2));
  std::string_view rest = std::string_view(text).substr(0, arrow);
  while (true) {
    const size_t comma = rest.find(',');
    equation.inputs.push_back(parse_subscripts(rest.substr(0, comma)));
    if (comma == std::string_view::npos) return equation;
    rest.remove_prefix(comma + 1);
  }
}

Labels ellipsis_labels(int count) {
  Labels labels;
  for (int i = count - 1; i >= 0; --i) labels += static_cast<char>('0' + i);
  return labels;
}

Labels resolve(const Subscripts& subscripts, const TensorType& type, size_t operand) {
  const int named = static_cast<int>(subscripts.before.size() + subscripts.after.size());
  const int hidden = type.shape.rank() - named;
  if (hidden < 0 || (hidden > 0 && !subscripts.ellipsis))
    fail("operand {} is {}: its indices '{}{}{}' name {} axes, it has {}", operand, type.to_string(),
         subscripts.before, subscripts.ellipsis ? "..." : "", subscripts.after, named, type.shape.rank());
  return subscripts.before + ellipsis_labels(subscripts.ellipsis ? hidden : 0) + subscripts.after;
}

// Returns the labels of the output. Without '->' they are the axes under '...', then every letter that occurs once, in
// alphabetical order.
Labels output_labels(const Equation& equation, const Labels& all) {
  Labels hidden;
  for (char c : ellipsis_labels(kMaxRank))
    if (has(all, c)) hidden += c;
  if (!equation.output) {
    Labels once = filter(all, [&](char c) { return c >= 'A' && std::ranges::count(all, c) == 1; });
    std::ranges::sort(once);
    return hidden + once;
  }
  const auto& [before, after, ellipsis] = *equation.output;
  for (char c : before + after) {
    if (!has(all, c)) fail("the output's index '{}' occurs in no operand", c);
    if (std::ranges::count(before, c) + std::ranges::count(after, c) > 1)
      fail("the output's index '{}' occurs twice", c);
  }
  return before + (ellipsis ? hidden : "") + after;
}

// --- single operands ---

// Sums over the labels `gone`. Low precision is summed in f32, integers in i64; the result is cast back to the operand's dtype.
Term sum_out(const Term& term, const Labels& gone) {
  if (gone.empty()) return term;
  Axes axes;
  for (size_t i = 0; i < term.labels.size(); ++i)
    if (has(gone, term.labels[i])) axes.push_back(static_cast<int64_t>(i));
  return {cast(sum(term.value, axes), term.value.dtype()),
          filter(term.labels, [&](char c) { return !has(gone, c); })};
}

Term arrange(const Term& term, const Labels& order) {
  if (order == term.labels) return term;
  std::vector<int64_t> axes;
  for (char c : order) axes.push_back(static_cast<int64_t>(term.labels.find(c)));
  return {permute(term.value, axes), order};
}

// Takes diagonals, x[..., i, i] -> x[..., i]: element (i, i) of an n x n matrix lies at i * (n + 1).
Term take_diagonals(Term term) {
  for (size_t i = 0; i < term.labels.size(); ++i) {
    const char label = term.labels[i];
    const size_t again = term.labels.find(label, i + 1);
    if (again == Labels::npos) continue;
    const Dim n = term.value.shape()[static_cast<int>(i)];
    if (!(n == term.value.shape()[static_cast<int>(again)]))
      fail("index '{}' has sizes {} and {} in one operand {}", label, n.to_string(),
           term.value.shape()[static_cast<int>(again)].to_string(), term.value.type().to_string());
    if (!n.is_constant())
      fail("the diagonal over index '{}' needs a known size, got {}", label, n.to_string());
    std::vector<int64_t> axes;
    Shape shape;
    Labels labels;
    for (size_t k = 0; k < term.labels.size(); ++k) {
      if (k == i || k == again) continue;
      axes.push_back(static_cast<int64_t>(k));
      shape.push_back(term.value.shape()[static_cast<int>(k)]);
      labels += term.labels[k];
    }
    axes.push_back(static_cast<int64_t>(i));
    axes.push_back(static_cast<int64_t>(again));
    shape.push_back(n * n);
    term.value = slice(reshape(permute(term.value, axes), shape), -1, 0, kToEnd, n.value() + 1);
    return take_diagonals({term.value, labels + label});
  }
  return term;
}

// --- sizes ---

using Sizes = std::map<char, Dim>;

Sizes label_sizes(const std::vector<Term>& terms) {
  Sizes sizes;
  for (const Term& term : terms)
    for (size_t i = 0; i < term.labels.size(); ++i) {
      const Dim size = term.value.shape()[static_cast<int>(i)];
      const auto [at, fresh] = sizes.try_emplace(term.labels[i], size);
      if (at->second == Dim(1)) at->second = size;
      if (!(size == Dim(1)) && !(size == at->second))
        fail("{} has sizes {} and {}",
             term.labels[i] < 'A' ? "an axis under '...'" : fmt::format("index '{}'", term.labels[i]),
             at->second.to_string(), size.to_string());
    }
  return sizes;
}

// Removes axes that broadcast: those of size 1 whose label has a larger size in another operand.
Term drop_broadcast_axes(Term term, const Sizes& sizes) {
  for (size_t i = term.labels.size(); i-- > 0;) {
    if (!(term.value.shape()[static_cast<int>(i)] == Dim(1)) || sizes.at(term.labels[i]) == Dim(1)) continue;
    term.value = squeeze(term.value, static_cast<int64_t>(i));
    term.labels.erase(i, 1);
  }
  return term;
}

Dim product(const Labels& labels, const Sizes& sizes) {
  Dim size(1);
  for (char c : labels) size = size * sizes.at(c);
  return size;
}

// Returns the cost of contracting a pair, for comparing orders; an unknown size counts as a typical one.
double cost(const Term& a, const Term& b, const Sizes& sizes) {
  constexpr double kTypicalSize = 128;
  double total = 1;
  for (char c : a.labels + filter(b.labels, [&](char l) { return !has(a.labels, l); }))
    total *= sizes.at(c).is_constant() ? static_cast<double>(sizes.at(c).value()) : kTypicalSize;
  return total;
}

// --- pairs ---

// Divides the labels of a pair by role: in both operands and kept (batch), in one operand only (left, right), or summed
// (contracted).
struct Roles {
  Labels batch, left, right, contracted;
};

Term multiply(const Term& a, const Term& b, const Roles& roles) {
  const Term x = arrange(a, roles.batch + roles.left), y = arrange(b, roles.batch + roles.right);
  Value wide = x.value;
  for (size_t i = 0; i < roles.right.size(); ++i) wide = unsqueeze(wide, -1);
  Value tall = y.value;
  for (size_t i = 0; i < roles.left.size(); ++i)
    tall = unsqueeze(tall, static_cast<int64_t>(roles.batch.size()));
  return {mul(wide, tall), roles.batch + roles.left + roles.right};
}

// A matrix [batch, free, contracted], or its transpose if the operand already has that order.
struct Matrix {
  Value value;
  bool contracted_first;
};

Matrix as_matrix(const Term& term, const Labels& batch, const Labels& free, const Labels& contracted,
                 const Sizes& sizes) {
  const bool contracted_first = term.labels == batch + contracted + free;
  const Value value = arrange(term, contracted_first ? term.labels : batch + free + contracted).value;
  Shape shape;
  if (!batch.empty()) shape.push_back(product(batch, sizes));
  const Dim rows = product(free, sizes), depth = product(contracted, sizes);
  shape.push_back(contracted_first ? depth : rows);
  shape.push_back(contracted_first ? rows : depth);
  return {reshape(value, shape), contracted_first};
}

// Returns how many operands must be permuted if batch and contracted labels are in the order of `r`.
int permutes(const Term& a, const Term& b, const Roles& r) {
  const auto needs = [&](const Term& term, const Labels& free) {
    return term.labels != r.batch + free + r.contracted && term.labels != r.batch + r.contracted + free;
  };
  return needs(a, r.left) + needs(b, r.right);
}

Term contract(const Term& a, const Term& b, Roles roles, const Sizes& sizes) {
  const auto in_order_of = [](const Term& term, const Labels& set) {
    return filter(term.labels, [&](char c) { return has(set, c); });
  };
  Roles best = roles;
  for (const Term* batch_from : {&a, &b})
    for (const Term* contracted_from : {&a, &b}) {
      const Roles candidate{in_order_of(*batch_from, roles.batch), roles.left, roles.right,
                            in_order_of(*contracted_from, roles.contracted)};
      if (permutes(a, b, candidate) < permutes(a, b, best)) best = candidate;
    }
  const Matrix x = as_matrix(a, best.batch, best.left, best.contracted, sizes);
  const Matrix y = as_matrix(b, best.batch, best.right, best.contracted, sizes);
  const Labels labels = best.batch + best.left + best.right;
  Shape shape;
  for (char c : labels) shape.push_back(sizes.at(c));
  return {reshape(matmul(x.value, y.value, x.contracted_first, !y.contracted_first), shape), labels};
}

// Returns the product of two terms, summed over the labels that neither other terms nor the output need (`kept` lists the needed
// ones).
Term combine(Term a, Term b, const Labels& kept, const Labels& output, const Sizes& sizes) {
  a = sum_out(a, filter(a.labels, [&](char c) { return !has(kept, c) && !has(b.labels, c); }));
  b = sum_out(b, filter(b.labels, [&](char c) { return !has(kept, c) && !has(a.labels, c); }));
  const auto roles_of = [&](const Term& x, const Term& y) {
    Roles roles;
    for (char c : x.labels)
      (!has(y.labels, c) ? roles.left : has(kept, c) ? roles.batch : roles.contracted) += c;
    for (char c : y.labels)
      if (!has(x.labels, c)) roles.right += c;
    return roles;
  };
  // Puts the operand on the left whose own labels come first in the output.
  const Roles roles = roles_of(a, b);
  if (!roles.left.empty() && !roles.right.empty() && output.find(roles.right[0]) < output.find(roles.left[0]))
    std::swap(a, b);
  const Roles ordered = roles_of(a, b);
  return ordered.contracted.empty() ? multiply(a, b, ordered) : contract(a, b, ordered, sizes);
}

// Combines the cheapest pair first; the earliest of equally cheap ones.
Term combine_all(std::vector<Term> terms, const Labels& output, const Sizes& sizes) {
  while (terms.size() > 1) {
    size_t x = 0, y = 1;
    for (size_t i = 0; i < terms.size(); ++i)
      for (size_t j = i + 1; j < terms.size(); ++j)
        if (cost(terms[i], terms[j], sizes) < cost(terms[x], terms[y], sizes)) x = i, y = j;
    Labels kept = output;
    for (size_t i = 0; i < terms.size(); ++i)
      if (i != x && i != y) kept += terms[i].labels;
    terms[x] = combine(terms[x], terms[y], kept, output, sizes);
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(y));
  }
  return terms[0];
}

Value lower(const std::string& text, const std::vector<Value>& operands) {
  const Equation equation = parse_equation(text);
  if (equation.inputs.size() != operands.size() || operands.empty())
    fail("the equation names {} operands, {} were given", equation.inputs.size(), operands.size());
  DType dtype = operands[0].dtype();
  for (const Value& operand : operands) dtype = promote(dtype, operand.dtype());
  std::vector<Term> terms;
  Labels all;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Labels labels = resolve(equation.inputs[i], operands[i].type(), i);
    all += labels;
    terms.push_back(take_diagonals({cast(operands[i], dtype), labels}));
  }
  const Labels output = output_labels(equation, all);
  const Sizes sizes = label_sizes(terms);
  for (Term& term : terms) term = drop_broadcast_axes(term, sizes);
  Term result = combine_all(terms, output, sizes);
  result = sum_out(result, filter(result.labels, [&](char c) { return !has(output, c); }));
  return arrange(result, output).value;
}

}  // namespace

Value einsum(const std::string& equation, const std::vector<Value>& operands) {
  return with_context([&] { return lower(equation, operands); },
                      [&] { return fmt::format("in einsum '{}'", equation); });
}

}  // namespace genesis
