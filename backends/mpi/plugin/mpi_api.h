// MPI's C functions, without its old C++ classes, which would need a library of their own.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
