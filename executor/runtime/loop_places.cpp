#include "executor/runtime/loop_places.h"

#include <algorithm>

#include "schema/ops/tensor/loop.h"

namespace genesis {
namespace {

void add_move(std::vector<LoopPlaces::Move>& moves, const LoopPlaces::Move& move) {
  if (move.bytes > 0 && move.to != move.from) moves.push_back(move);
}

class Placer {
 public:
  Placer(const Step& loop, const Plan& body, const PlanMemory& memory, std::byte* scratch)
      : op_(from_attributes<ops::Loop>(loop.attributes)),
        loop_(loop),
        body_(body),
        memory_(memory),
        scratch_(scratch),
        at_(loop_memory(body, op_.carried)) {}

  LoopPlaces place() {
    places_.number = scratch_ + at_.number;
    places_.condition = operand(0);
    places_.most = operand(1);
    place_body();
    places_.goes_on = result_of_step(0);
    for (int64_t i = 0; i < op_.carried; ++i) carry(i);
    for (int64_t i = 0; i < op_.collected; ++i) collect(i);
    for (int64_t i = 0; i < op_.carried + op_.collected; ++i)
      add_move(places_.before, {result(i), operand(i + 2), loop_.outputs[static_cast<size_t>(i)].bytes});
    return std::move(places_);
  }

 private:
  std::byte* operand(int64_t i) const { return memory_.resolve(loop_.inputs[static_cast<size_t>(i)]); }
  std::byte* result(int64_t i) const { return memory_.resolve(loop_.outputs[static_cast<size_t>(i)]); }
  const BufferRef& output_of_step(int64_t i) const { return body_.outputs[static_cast<size_t>(i)].buffer; }
  std::byte* result_of_step(int64_t i) const { return places_.body.resolve(output_of_step(i)); }

  void place_body() {
    places_.body = memory_;
    places_.body.arena = scratch_ + at_.arena;
    places_.body.inputs = {places_.number};
    for (int64_t i = 0; i < op_.carried; ++i) places_.body.inputs.push_back(result(i));
    for (auto i = static_cast<size_t>(2 + op_.carried + op_.collected); i < loop_.inputs.size(); ++i)
      places_.body.inputs.push_back(memory_.resolve(loop_.inputs[i]));
  }

  void carry(int64_t i) {
    const int64_t bytes = output_of_step(i + 1).bytes;
    const std::byte* from = result_of_step(i + 1);
    if (const auto aside = at_.aside[static_cast<size_t>(i)]) {
      add_move(places_.kept, {scratch_ + *aside, from, bytes});
      from = scratch_ + *aside;
    }
    add_move(places_.carried, {result(i), from, bytes});
  }

  void collect(int64_t i) {
    const int64_t row = 1 + op_.carried + i;
    add_move(places_.kept,
             {result(op_.carried + i), result_of_step(row), output_of_step(row).bytes, /*is_row=*/true});
    places_.rows = loop_.output_types[static_cast<size_t>(op_.carried)].shape[0].value();
    places_.count = result(op_.carried + op_.collected);
  }

  const ops::Loop op_;
  const Step& loop_;
  const Plan& body_;
  const PlanMemory& memory_;
  std::byte* const scratch_;
  const LoopMemory at_;
  LoopPlaces places_;
};

}  // namespace

const Plan& body_of(const Plan& plan, const Step& loop) {
  const std::string entry = from_attributes<ops::Loop>(loop.attributes).entry;
  const auto body = std::ranges::find(plan.bodies, entry, &Plan::entry);
  if (body == plan.bodies.end())
    fail("the plan of '{}' has no plan of '{}', which node '{}' runs", plan.entry, entry, loop.authored);
  return *body;
}

LoopPlaces place_loop(const Step& loop, const Plan& body, const PlanMemory& memory, std::byte* scratch) {
  return Placer(loop, body, memory, scratch).place();
}

}  // namespace genesis
