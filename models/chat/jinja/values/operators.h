// Python's operators on values.
#pragma once

#include <optional>

#include "models/chat/jinja/values/budget.h"
#include "models/chat/jinja/values/value.h"

namespace genesis::jinja {

enum class BinaryOp { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class CompareOp { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

// All throw Error for types that the operator does not take, and where an int leaves 64 bits.
Value binary(Budget& budget, BinaryOp op, const Value& a, const Value& b);
Value negative(const Value& value);
Value positive(const Value& value);

bool equal(Budget& budget, const Value& a, const Value& b);
bool less(Budget& budget, const Value& a, const Value& b);
bool contains(Budget& budget, const Value& container, const Value& item);
bool compare(Budget& budget, CompareOp op, const Value& a, const Value& b);

int64_t length(const Value& value);
// Gives what `for` goes over: the items of a list, which is shared and not copied, the keys of a mapping, the characters of a text;
// nothing for what is undefined.
std::shared_ptr<const Sequence> sequence_of(Budget& budget, const Value& value);
// A copy of its items.
std::vector<Value> items_of(Budget& budget, const Value& value);
// container[key], where it has one.
std::optional<Value> find_item(Budget& budget, const Value& container, const Value& key);
// container[start:stop:step]; none where a part is left out.
Value slice(Budget& budget, const Value& container, const Value& start, const Value& stop, const Value& step);

double number_in(const Value& value, std::string_view what);
// int() of a float. Throws Error where it is beyond 64 bits.
int64_t whole_part(double value);
std::optional<int64_t> whole_number(const Value& value);  // of an int or a bool
bool are_alike(const Value& a, const Value& b);           // both lists, or both tuples
[[noreturn]] void fail_operands(const char* sign, const Value& a, const Value& b);

}  // namespace genesis::jinja
