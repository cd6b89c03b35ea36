// The learning rate of a session that trains, between two steps.
//
//   set_learning_rate(session, 0.1 * learning_rate(session));
//
// It is the rate that the schedule of the training step starts from, and a state of the model, so that checkpoints have it: with a
// constant rate that of all steps to come, with another schedule their rates follow that schedule from the new
// beginning, and with PlateauLR the rate of now, which a plateau multiplies as ever. Rates of parameter groups follow.
#pragma once

#include "executor/session.h"

namespace genesis {

// Throws Error where the model has no training step with such a state (passes/training/train_step.h): those that were made by
// earlier versions have the rate as a constant.
double learning_rate(const Session& session);
// Throws Error for a rate that is negative, not finite or beyond f32. No step may be under way: within a
// training loop TrainerOptions::learning_rate says when.
void set_learning_rate(Session& session, double rate);

}  // namespace genesis
