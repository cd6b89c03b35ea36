// Implements Python's operators on template values.
#pragma once

#include <optional>

#include "models/chat/jinja/values/budget.h"
#include "models/chat/jinja/values/value.h"

namespace genesis::jinja {

enum class BinaryOp { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class CompareOp { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

// These throw Error for operands of a wrong type, and if an integer result exceeds 64 bits.
Value binary(Budget& budget, BinaryOp op, const Value& a, const Value& b);
Value negative(const Value& value);
Value positive(const Value& value);

bool equal(Budget& budget, const Value& a, const Value& b);
bool less(Budget& budget, const Value& a, const Value& b);
bool contains(Budget& budget, const Value& container, const Value& item);
bool compare(Budget& budget, CompareOp op, const Value& a, const Value& b);

int64_t length(const Value& value);
// Returns the items that `for` iterates over: those of a list, which is shared and not copied, the keys of a mapping, or the
// characters of a text. An undefined value has none.
std::shared_ptr<const Sequence> sequence_of(Budget& budget, const Value& value);
// Returns a copy of these items.
std::vector<Value> items_of(Budget& budget, const Value& value);
// Returns container[key] if it exists.
std::optional<Value> find_item(Budget& budget, const Value& container, const Value& key);
// Returns container[start:stop:step]. An omitted argument is none.
Value slice(Budget& budget, const Value& container, const Value& start, const Value& stop, const Value& step);

double number_in(const Value& value, std::string_view what);
// Truncates a float as Python's int() does. Throws Error if it exceeds 64 bits.
int64_t whole_part(double value);
std::optional<int64_t> whole_number(const Value& value);  // for an int or a bool; empty for other types
bool are_alike(const Value& a, const Value& b);           // both lists, both tuples or both ranges
[[noreturn]] void fail_operands(const char* sign, const Value& a, const Value& b);

}  // namespace genesis::jinja
