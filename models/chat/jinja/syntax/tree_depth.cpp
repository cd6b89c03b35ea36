#include "models/chat/jinja/syntax/tree_depth.h"

#include <algorithm>

namespace genesis::jinja {
namespace {

// This is not an overload of depth_below(): each argument would convert to its parameter, the variant of all nodes.
int depth_under(const ExpressionPtr& expression) { return expression ? expression->depth : 0; }

template <class First, class Second>
int depth_under(const std::pair<First, Second>& pair);
inline int depth_under(const std::string&) { return 0; }
inline int depth_under(CompareOp) { return 0; }
template <class T>
int depth_under(const std::vector<T>& items) {
  int depth = 0;
  for (const T& item : items) depth = std::max(depth, depth_under(item));
  return depth;
}
template <class First, class Second>
int depth_under(const std::pair<First, Second>& pair) {
  return std::max(depth_under(pair.first), depth_under(pair.second));
}
int depth_under(const ArgumentList& list);
template <class... Parts>
int deepest(const Parts&... parts) {
  return std::max({0, depth_under(parts)...});
}

int depth_under(const ArgumentList& list) {
  return deepest(list.positional, list.named, list.more_positional, list.more_named);
}

int depth_of(const Literal&) { return 0; }
int depth_of(const Name&) { return 0; }
int depth_of(const ListDisplay& n) { return deepest(n.items); }
int depth_of(const DictDisplay& n) { return deepest(n.entries); }
int depth_of(const AttributeOf& n) { return deepest(n.object); }
int depth_of(const ItemOf& n) { return deepest(n.object, n.key); }
int depth_of(const SliceOf& n) { return deepest(n.object, n.start, n.stop, n.step); }
int depth_of(const CallOf& n) { return deepest(n.callee, n.arguments); }
int depth_of(const FilterOf& n) { return deepest(n.input, n.arguments); }
int depth_of(const TestOf& n) { return deepest(n.input, n.arguments); }
int depth_of(const Unary& n) { return deepest(n.operand); }
int depth_of(const Binary& n) { return deepest(n.left, n.right); }
int depth_of(const Concat& n) { return deepest(n.parts); }
int depth_of(const Comparison& n) { return deepest(n.first, n.rest); }
int depth_of(const Logic& n) { return deepest(n.left, n.right); }
int depth_of(const Conditional& n) { return deepest(n.condition, n.then, n.otherwise); }

}  // namespace

int depth_below(const Expression::Node& node) {
  return std::visit([](const auto& one) { return depth_of(one); }, node);
}

}  // namespace genesis::jinja
