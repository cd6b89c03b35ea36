// Reads and sets the learning rate of a training session, between two steps.
//
//     set_learning_rate(session, 0.1 * learning_rate(session));
//
// It is the base rate of the training step's schedule, a state of the model that checkpoints keep. With a constant schedule it is
// the rate of all later steps; other schedules compute their rates from the new base. With PlateauLR it is the current rate,
// which plateaus keep multiplying. The rates of parameter groups follow.
#pragma once

#include "executor/session.h"

namespace genesis {

// Throws Error if the model has no training step with this state (passes/training/train_step.h); training steps made by earlier
// versions have the rate as a constant.
double learning_rate(const Session& session);
// Throws Error for a rate that is negative, not finite or beyond f32. No step may be running; within a training loop use
// TrainerOptions::learning_rate.
void set_learning_rate(Session& session, double rate);

}  // namespace genesis
