// Stand-in for the CUDA runtime's header, for tests on machines without a GPU: see ../README.md.
// Names, values and signatures are those of CUDA 13; what is not here, the stand-in does not have.
#pragma once

#define GPT_CUDA_STANDIN 1
#define CUDART_VERSION 13000

#include <standin/atomics.h>
#include <standin/keywords.h>
#include <standin/launch.h>
#include <standin/math.h>
#include <standin/memory_access.h>
#include <standin/runtime_api.h>
#include <standin/runtime_templates.h>
#include <standin/runtime_types.h>
#include <standin/threads.h>
#include <standin/vector_types.h>
#include <standin/warp.h>
