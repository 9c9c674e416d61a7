# The CUDA backend. GPT_CUDA says how it is built; GPT_CUDA_BACKEND is what came of it: OFF, ON or STANDIN.
# Rooms link gpt::cuda (runtime and cuBLASLt) and gpt::nccl whatever the value, and name their .cu files with
# gpt_cuda_sources.
set(GPT_CUDA AUTO CACHE STRING
  "The CUDA backend: ON, OFF, AUTO (ON where CUDA 12 and NCCL are found), STANDIN (run on the CPU, for tests)")
set_property(CACHE GPT_CUDA PROPERTY STRINGS AUTO ON OFF STANDIN)
set(GPT_CUDA_ARCHITECTURES "" CACHE STRING
  "GPUs to compile for, as CMAKE_CUDA_ARCHITECTURES; empty: sm_80, sm_90, sm_100, and PTX for later ones")

# Sets `missing` to what a build with CUDA lacks; empty when all is there.
macro(gpt_find_cuda missing)
  set(${missing} "")
  find_package(CUDAToolkit 12 QUIET)
  if(NOT TARGET CUDA::cudart OR NOT CUDAToolkit_NVCC_EXECUTABLE)
    list(APPEND ${missing} "the CUDA toolkit (version 12 or later)")
  elseif(NOT TARGET CUDA::cublasLt)
    list(APPEND ${missing} "cuBLASLt")
  endif()
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV NCCL_HOME PATH_SUFFIXES include)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR} ENV NCCL_HOME
    PATH_SUFFIXES lib lib64)
  if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
    list(APPEND ${missing} "NCCL")
  endif()
endmacro()

if(NOT GPT_CUDA MATCHES "^(ON|OFF|AUTO|STANDIN)$")
  message(FATAL_ERROR "GPT_CUDA=${GPT_CUDA} is not ON, OFF, AUTO or STANDIN.")
endif()
set(GPT_CUDA_BACKEND ${GPT_CUDA})
if(GPT_CUDA MATCHES "^(ON|AUTO)$")
  gpt_find_cuda(missing)
  list(JOIN missing ", " missing)
  if(missing AND GPT_CUDA STREQUAL ON)
    message(FATAL_ERROR "GPT_CUDA=ON, and these were not found: ${missing}. Set CUDAToolkit_ROOT and NCCL_HOME, or "
      "leave GPT_CUDA off to train on CPUs.")
  elseif(missing)
    set(GPT_CUDA_BACKEND OFF)
    message(STATUS "CUDA backend: OFF (not found: ${missing})")
  else()
    set(GPT_CUDA_BACKEND ON)
    message(STATUS "CUDA backend: ON (CUDA ${CUDAToolkit_VERSION}, NCCL in ${NCCL_LIBRARY})")
  endif()
else()
  message(STATUS "CUDA backend: ${GPT_CUDA_BACKEND}")
endif()

add_library(gpt_cuda INTERFACE)
add_library(gpt::cuda ALIAS gpt_cuda)
add_library(gpt_nccl INTERFACE)
add_library(gpt::nccl ALIAS gpt_nccl)

if(GPT_CUDA_BACKEND STREQUAL ON)
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
  endif()
  if(NOT GPT_CUDA_ARCHITECTURES AND CUDAToolkit_VERSION VERSION_LESS 12.8)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  elseif(NOT GPT_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
  else()
    set(CMAKE_CUDA_ARCHITECTURES ${GPT_CUDA_ARCHITECTURES})
  endif()
  enable_language(CUDA)
  # Targets' CXX_STANDARD is nvcc's, too, but CMake 3.25 does not know how nvcc is told of C++20.
  foreach(kind IN ITEMS STANDARD EXTENSION)
    set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
  endforeach()
  # Kernels call the constexpr functions of base and of the standard library.
  target_compile_options(gpt_options INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wshadow>)
  if(GPT_WERROR)
    target_compile_options(gpt_options INTERFACE
      "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings -Xcompiler=-Werror>")
  endif()
  target_link_libraries(gpt_cuda INTERFACE CUDA::cudart CUDA::cublasLt)
  target_include_directories(gpt_nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
  target_link_libraries(gpt_nccl INTERFACE ${NCCL_LIBRARY} gpt_cuda)
elseif(GPT_CUDA_BACKEND STREQUAL STANDIN)
  target_link_libraries(gpt_cuda INTERFACE gpt_cuda_standin)
  target_link_libraries(gpt_nccl INTERFACE gpt_cuda_standin)
endif()

# gpt_cuda_sources(TARGET FILE...): adds .cu files, for nvcc or, with the stand-in, for the C++ compiler.
function(gpt_cuda_sources target)
  if(GPT_CUDA_BACKEND STREQUAL OFF)
    return()
  endif()
  target_sources(${target} PRIVATE ${ARGN})
  if(GPT_CUDA_BACKEND STREQUAL STANDIN)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++;-Wno-unknown-pragmas")
  endif()
endfunction()
