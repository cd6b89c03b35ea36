#include "passes/core/update_inputs.h"

#include "passes/core/match.h"
#include "schema/ops/nn/optimizer.h"

namespace genesis::passes {

UpdateInputs update_inputs(const Node& node) {
  if (const auto adam = match<ops::AdamUpdate>(node); adam && adam->is_single()) {
    const auto at = [](int input) { return static_cast<size_t>(input); };
    UpdateInputs inputs{at(adam->holder(0)), at(adam->gradient(0)), {at(adam->m(0)), at(adam->v(0))}};
    if (adam->has_codes())
      inputs.moments.insert(inputs.moments.end(), {at(adam->m_scales(0)), at(adam->v_scales(0))});
    return inputs;
  }
  if (match<ops::LionUpdate>(node)) return {0, 1, {2}};
  if (const auto sgd = match<ops::SgdUpdate>(node); sgd && sgd->momentum != 0) return {0, 1, {4}};
  return {};
}

}  // namespace genesis::passes
