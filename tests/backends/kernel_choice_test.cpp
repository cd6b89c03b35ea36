// Tests which kernel of an op's table takes a node: the first one that can run it, is not switched off, and supports
// the machine's chip.
#include <gtest/gtest.h>

#include "backends/implementation_list.h"
#include "backends/kernel_table.h"
#include "schema/core/error.h"
#include "schema/ops/nn/softmax.h"

namespace genesis {
namespace {

void run(const KernelContext&) {}
std::optional<std::string> always() { return std::nullopt; }
std::optional<std::string> never() { return "no such chip"; }
std::optional<std::string> too_small(const KernelQuery&) { return "too small"; }

KernelImpl row(std::string_view name, std::optional<std::string> (*why_not_here)() = nullptr) {
  return {.name = name, .run = run, .why_not_here = why_not_here};
}

// A node, and the query for its kernel.
struct Asked {
  const OpDef& op = *find_op("softmax");
  Attributes attributes;
  std::vector<TensorType> types{{DType::f32, {4, 4}}};
  KernelNames disabled;
  KernelQuery query() const {
    return {.op = op, .attributes = attributes, .inputs = types, .outputs = types, .disabled = &disabled};
  }
};

TEST(KernelChoice, ARowForAChipThatIsNotHereDeclinesInWords) {
  const Asked node;
  const KernelImpl rows[] = {row("for_a_chip", never), row("general")};
  const KernelChoice choice = choose_kernel(rows, node.query());
  EXPECT_EQ(choice.name, "softmax.general");
  ASSERT_EQ(choice.declined.size(), 1u);
  EXPECT_EQ(choice.declined[0].name, "softmax.for_a_chip");
  EXPECT_EQ(choice.declined[0].reason, "no such chip");
  EXPECT_EQ(select_kernel(rows, node.query()).name, "general");
}

TEST(KernelChoice, ARowForAChipThatIsHereTakesItsNodes) {
  const Asked node;
  const KernelImpl rows[] = {row("for_a_chip", always), row("general")};
  EXPECT_EQ(choose_kernel(rows, node.query()).name, "softmax.for_a_chip");
  EXPECT_TRUE(is_native(rows, node.query()));
}

// A reason that lies in the node is reported before one that lies in the machine, since it holds everywhere.
TEST(KernelChoice, TheNodeIsAskedBeforeTheMachine) {
  const Asked node;
  KernelImpl picky = row("picky", never);
  picky.can_run = too_small;
  const KernelImpl rows[] = {picky, row("general")};
  EXPECT_EQ(choose_kernel(rows, node.query()).declined.at(0).reason, "too small");
}

TEST(KernelChoice, WhereNoRowIsLeftTheErrorSaysWhyEachDeclined) {
  const Asked node;
  const KernelImpl rows[] = {row("for_a_chip", never)};
  try {
    select_kernel(rows, node.query());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.message()), "no kernel runs op 'softmax': for_a_chip: no such chip");
  }
}

// Implementations inside a kernel, such as those of a matrix product. The same code reports the choice on every
// device.
struct SizedImplementation {
  const char* name;
  std::string (*decline)(const int&);
};
constexpr SizedImplementation kImplementations[] = {
    {"small", [](const int& n) -> std::string { return n > 8 ? "more than 8" : ""; }},
    {"even", [](const int& n) -> std::string { return n % 2 ? "an odd one" : ""; }},
    {"all", [](const int&) -> std::string { return "it is never asked"; }}};
const std::span<const SizedImplementation> kSizedImplementations = kImplementations;

TEST(ImplementationList, TheFirstThatTakesAProblemIsNamedAndWhyBetterOnesDecline) {
  EXPECT_EQ(choose_implementation("sum", kSizedImplementations, 3, nullptr).name, "sum.small");
  const KernelChoice choice = choose_implementation("sum", kSizedImplementations, 11, nullptr);
  EXPECT_EQ(choice.name, "sum.all");
  EXPECT_EQ(choice.declined,
            (std::vector<KernelChoice::Declined>{{"sum.small", "more than 8"}, {"sum.even", "an odd one"}}));
}

TEST(ImplementationList, AllButTheLastCanBeSwitchedOff) {
  EXPECT_EQ(names_of_implementations("sum", kSizedImplementations),
            (std::vector<std::string>{"sum.small", "sum.even"}));
  const KernelNames off = {"sum.small", "even"};
  const KernelChoice choice = choose_implementation("sum", kSizedImplementations, 4, &off);
  EXPECT_EQ(choice.name, "sum.all");
  EXPECT_EQ(choice.declined.at(0).reason, "switched off");
  EXPECT_EQ(choice.declined.at(1).reason, "switched off");
}

// A kernel with an inner choice also reports what a machine that makes a plan cannot know.
TEST(KernelChoice, ARowTellsWhatItsInnerImplementationLeavesOpen) {
  const Asked node;
  KernelImpl product = row("product");
  product.choose_inner = [](const KernelQuery&) {
    return KernelChoice{.name = "sum.all", .declined = {}, .decided_later = "timed where it runs"};
  };
  const KernelImpl rows[] = {product};
  EXPECT_EQ(choose_kernel(rows, node.query()).decided_later, "timed where it runs");
}

}  // namespace
}  // namespace genesis
