// The header that a program includes to write, train, run, save and load models. An installed copy and everything it needs are
// found as <genesis/...>; in this source tree files include each other by their paths from the root (packaging/headers.sh).
#pragma once

#include "builder/genesis.h"
#include "executor/session.h"
#include "executor/state_dict.h"
#include "executor/training/checkpoint.h"
#include "executor/training/trainer.h"
#include "models/data/sources.h"
#include "models/generation/generate.h"
#include "models/jobs/train_job.h"
#include "models/text/text_model.h"
#include "models/tokenizer/tokenizer.h"
#include "models/zoo.h"
#include "passes/training/train_step.h"
#include "schema/file/other_formats/npy.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/version.h"
