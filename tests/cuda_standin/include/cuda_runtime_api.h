// Stand-in for the header of the CUDA runtime's C interface.
#pragma once

#include <standin/runtime_api.h>
