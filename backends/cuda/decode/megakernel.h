// A megakernel: one persistent kernel that runs a program of instructions, each one step of a decoded token (one row
// of x). A kernel for each such step would spend more time starting and filling the memory's queues than computing.
//
// Every multiprocessor has one block of consumer warps and one producer warp. The producer streams the block's rows
// of all weights through a ring in shared memory, in the order in which instructions will need them. The consumers
// run the instructions: they wait for the vector that an instruction reads, multiply it with weight rows as these
// arrive, and publish the block's share of the result. There is no barrier between blocks. Results travel in words of
// 8 bytes with two elements and a tag that differs from the tags of all other instructions of this run and of the
// previous one, so a reader sees from the word itself whether it has arrived (NCCL calls this the LL protocol).
//
// All blocks must be on the chip at once, which a cooperative launch guarantees.
#pragma once

#include "backends/cuda/decode/megakernel_program.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

// These functions depend on the shapes alone.
// `large_copies`: of a program with mixtures.
void plan_product(Instruction& step, int blocks, bool large_copies);
int64_t vector_bytes(WeightFormat format, int64_t k,
                     bool is_scaled);  // bytes of x in shared memory; is_scaled: by a norm or by factors
int attention_splits(int heads, int blocks);
int64_t split_words(int heads, int size, int blocks);
// Returns whether the ring has space for the largest chunk of the planned step's weights while another one is used, where a block has
// `shared` bytes of shared memory. The program's `count` and `vector_bytes` must be set.
bool ring_takes(const MegakernelProgram& program, const Instruction& step, int blocks, int shared);

// Returns whether the current device can run such a kernel: it needs shared memory and cooperative launches.
bool can_start_megakernels();
void start_megakernel(const Launch& launch, const MegakernelProgram& program);

}  // namespace genesis::cuda
