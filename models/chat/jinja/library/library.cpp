#include "models/chat/jinja/library/library.h"

#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {
namespace {

// Returns an attribute of `loop`; undefined if it does not exist.
Value loop_attribute(const Loop& loop, const std::string& name) {
  const auto index = static_cast<int64_t>(loop.index), size = static_cast<int64_t>(loop.items().size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index == size - 1;
  if (name == "length") return size;
  if (name == "depth") return int64_t{loop.level + 1};
  if (name == "depth0") return int64_t{loop.level};
  if (name == "previtem" && index > 0) return loop.items()[loop.index - 1];
  if (name == "nextitem" && index + 1 < size) return loop.items()[loop.index + 1];
  return Value::undefined("the attribute '" + name + "' of loop");
}

}  // namespace

void Rendering::Namespaces::free(Namespace* space) {
  alive.erase(space);
  dead.emplace_back(space);
  if (std::exchange(is_freeing, true)) return;
  while (!dead.empty()) {
    const auto one = std::move(dead.back());
    dead.pop_back();
  }
  is_freeing = false;
}

std::shared_ptr<Namespace> Rendering::new_namespace() {
  budget_.make(sizeof(Namespace) + 2 * kTextBytes);
  auto owned = std::make_unique<Namespace>();
  namespaces_->alive.insert(owned.get());
  return {owned.release(), [all = namespaces_](Namespace* space) { all->free(space); }};
}

void Rendering::empty_namespaces() {
  std::vector<Namespace> contents;
  for (Namespace* space : namespaces_->alive) contents.push_back(std::exchange(*space, {}));
}

Value Rendering::filter(const std::string& name, const Value& input, Arguments& arguments) {
  const Filter found = find_filter(name);
  if (!found) fail("the filter '{}' is not supported", name);
  Value result = found(*this, input, arguments);
  arguments.finish();
  return result;
}

bool Rendering::test(const std::string& name, const Value& input, Arguments& arguments) {
  const Test* found = find_test(name);
  if (!found) fail("the test '{}' is not supported", name);
  const bool result =
      found->of_value ? found->of_value(input) : found->with_arguments(*this, input, arguments);
  arguments.finish();
  return result;
}

Value Rendering::attribute(const Value& object, const std::string& name) {
  defined(object);
  if (is_tuple(object) && object.sequence()->label == "group")
    if (name == "grouper" || name == "list") return object.sequence()->items[name == "list" ? 1 : 0];
  if (const Namespace* space = object.space())
    if (const auto found = space->attributes.find(name); found != space->attributes.end())
      return found->second;
  if (const Loop* loop = object.loop())
    if (Value value = loop_attribute(*loop, name); !value.is_undefined()) return value;
  if (auto method = find_method(*this, object, name)) return *method;
  if (const Dict* dict = object.dict())
    if (const Value* found = dict->find(name)) return *found;
  return Value::undefined(fmt::format("the attribute '{}' of a {}", name, type_name(object)));
}

Value Rendering::item(const Value& object, const Value& key) {
  defined(object);
  if (auto found = find_item(budget_, object, key)) return *found;
  if (key.text()) return attribute(object, *key.text());
  return Value::undefined(fmt::format("the item {} of a {}", to_repr(budget_, key), type_name(object)));
}

}  // namespace genesis::jinja
