// Makes models of the settings that a configuration of another format means.
#pragma once

#include <memory>

#include "models/families.h"
#include "models/zoo.h"

namespace genesis::models::hugging_face {

// Completes the settings of a configuration: those that `changes` has get other values, and those that neither has their standard
// values. Limits cache_positions to kDefaultPositions (import.h) if max_position_embeddings, the longest text, exceeds it, unless `changes`
// sets max_position_embeddings. Throws Error for a setting that the family does not have, and for a value of the wrong kind.
void take_changes(FamilySettings& read, const Settings& changes);

// Makes the model with states that have no values and take no memory.
std::unique_ptr<Model> make_uninitialized(const FamilySettings& made);

}  // namespace genesis::models::hugging_face
