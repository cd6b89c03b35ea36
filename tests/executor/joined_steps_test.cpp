// Tests which implementation joins a step with its neighbors if several could, and the reasons given for the others.
// Needs no GPU.
#include "executor/cuda/joined_steps.h"

#include <gtest/gtest.h>

namespace genesis {
namespace {

using Declined = std::vector<KernelChoice::Declined>;

// For a plan with eight steps.
constexpr JoiningImplementation kImplementations[] = {
    {.name = "first",
     .decided_later = "it may not fit",
     .find =
         [](const Plan&) {
           return JoinableSteps{{{1, 4}}, {"too odd", "", "", "", "", "", "", "too even"}};
         }},
    {.name = "second",
     .find =
         [](const Plan&) {
           return JoinableSteps{{{3, 6}, {6, 8}}, std::vector<std::string>(8)};
         }},
};

std::vector<KernelChoice> choices(const KernelNames& disabled) {
  Plan plan;
  plan.steps.resize(8);
  return choose_joined(kImplementations, plan, disabled);
}

TEST(JoinedSteps, TheFirstImplementationThatWantsAStepHasIt) {
  const std::vector<KernelChoice> made = choices({});
  const Declined taken = {{"second", "a better implementation has some of its steps"}};
  ASSERT_EQ(made.size(), 8u);
  EXPECT_EQ(made[0], (KernelChoice{"", {{"first", "too odd"}}, ""}));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(made[i], (KernelChoice{"first", {}, "it may not fit"})) << i;
  for (size_t i = 4; i < 6; ++i) EXPECT_EQ(made[i], (KernelChoice{"", taken, ""})) << i;
  EXPECT_EQ(made[6], (KernelChoice{"second", {}, ""}));
  EXPECT_EQ(made[7], (KernelChoice{"second", {{"first", "too even"}}, ""}));
}

TEST(JoinedSteps, AnImplementationThatIsOffSaysSoOfTheStepsThatItWouldHave) {
  const std::vector<KernelChoice> made = choices({"first"});
  const Declined off = {{"first", "switched off"}};
  EXPECT_EQ(made[0], (KernelChoice{"", {{"first", "too odd"}}, ""}));
  EXPECT_EQ(made[1], (KernelChoice{"", off, ""}));
  EXPECT_EQ(made[3], (KernelChoice{"second", off, ""}));
  EXPECT_EQ(made[4], (KernelChoice{"second", {}, ""}));
}

TEST(JoinedSteps, EveryRowOfTheListHasANameOfItsOwn) {
  KernelNames names;
  for (const JoiningImplementation& implementation : joining_implementations())
    EXPECT_TRUE(names.emplace(implementation.name).second) << implementation.name;
}

}  // namespace
}  // namespace genesis
