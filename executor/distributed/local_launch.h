// Ranks of this host, started by a program that wants several where no launcher has started more than this process. Ranks on
// CPUs are started by mpirun; ranks on GPUs are this program again, once a GPU, which find each other at the loopback address.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/ranks/mesh.h"

namespace genesis {

// Whether the mesh has several ranks and this process is alone: nothing has started it, or a launcher that started one process
// (srun --pty bash, mpirun -n 1). Throws Error where the environment says so in part (see launch.h).
bool must_launch_ranks(const Mesh& mesh);

// Runs this program with its arguments once a rank, and waits for all: 0 when all ended well, else what the first that did
// not ended with (128 + N after signal N). Ranks but the first have their stdout closed. SIGINT, SIGTERM, SIGHUP and SIGUSR1 are
// passed on, through mpirun as SIGUSR1; when a rank fails, the others have kGraceSeconds (child_ranks.h) to end by themselves, and mpirun's 4. Throws
// Error where there is no MPI, no mpirun, or a process cannot be started.
int launch_ranks(const Mesh& mesh, std::string_view device_kind);

// The command that starts `program` on so many ranks of this host, and what it needs in its environment: more ranks than
// cores are allowed, threads run where they like, and ranks exchange data in shared memory and by the loopback, where mpirun
// listens while the run lasts. Throws Error without mpirun, and without the module that keeps mpirun to the loopback.
std::vector<std::string> mpirun_command(int64_t ranks, const std::vector<std::string>& program);
void set_mpirun_environment();

}  // namespace genesis
