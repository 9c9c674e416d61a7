# What tests of the CUDA backend are labelled: `cuda` where they run on its stand-in, `gpu` where they need real ones.
set(GPT_CUDA_LABEL cuda)
if(GPT_CUDA_BACKEND STREQUAL ON)
  set(GPT_CUDA_LABEL gpu)
  set(GPT_NEEDS_GPU ${CMAKE_SOURCE_DIR}/tests/support/needs_gpus.sh 1)
endif()

# gpt_test_binary(NAME LIBRARIES target... SOURCES file...): a doctest program.
function(gpt_test_binary name)
  cmake_parse_arguments(test "" "" "LIBRARIES;SOURCES" ${ARGN})
  add_executable(${name} ${test_SOURCES})
  target_link_libraries(${name} PRIVATE gpt_options gpt::test_support ${test_LIBRARIES})
  gpt_precompile(${name} <doctest/doctest.h> <filesystem> <fmt/format.h> <fmt/ranges.h> <functional> <memory> <string> <vector>)
endfunction()

# gpt_register(NAME PROCESSORS n THREADS n [LABELS label...] [TIMEOUT s] [ENVIRONMENT setting...] COMMAND...): what all
# entries share. Exit code 77 means skipped; with GPT_TEST_STRICT=1 tests do not skip, they fail.
function(gpt_register name)
  cmake_parse_arguments(test "" "PROCESSORS;THREADS;TIMEOUT" "LABELS;COMMAND;ENVIRONMENT" ${ARGN})
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 300)
  endif()
  if(GPT_SANITIZE)
    # Sanitized code is several times slower. Leaks are not looked for: Open MPI never frees much of its own, in plug-ins
    # that are unloaded before the check and so cannot be told from ours.
    math(EXPR test_TIMEOUT "4 * ${test_TIMEOUT}")
    list(APPEND test_ENVIRONMENT GPT_TEST_SANITIZED=1 ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1)
  endif()
  if(GPT_CUDA_BACKEND STREQUAL STANDIN AND NOT test_LABELS STREQUAL cuda)
    list(PREPEND test_ENVIRONMENT GPT_CUDA_STANDIN_DEVICES=0)  # these are of machines without a GPU
  endif()
  add_test(NAME ${name} COMMAND ${test_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${test_LABELS}" TIMEOUT ${test_TIMEOUT} SKIP_RETURN_CODE 77
    PROCESSORS ${test_PROCESSORS} ENVIRONMENT "OMP_NUM_THREADS=${test_THREADS};${test_ENVIRONMENT}")
endfunction()

# gpt_test(NAME [LABEL label] [TIMEOUT s] [ENVIRONMENT setting...] COMMAND...): one entry, one process, two threads.
function(gpt_test name)
  cmake_parse_arguments(test "" "LABEL;TIMEOUT" "COMMAND;ENVIRONMENT" ${ARGN})
  gpt_register(${name} PROCESSORS 2 THREADS 2 LABELS ${test_LABEL} TIMEOUT ${test_TIMEOUT} COMMAND ${test_COMMAND}
    ENVIRONMENT ${test_ENVIRONMENT})
endfunction()

# gpt_mpi_test(NAME BINARY NP n...): the same program on several rank counts: NAME.np1, NAME.np2, …
function(gpt_mpi_test name)
  cmake_parse_arguments(test "" "BINARY;LABEL;TIMEOUT" "NP;ARGUMENTS" ${ARGN})
  foreach(ranks IN LISTS test_NP)
    gpt_register(${name}.np${ranks} PROCESSORS ${ranks} THREADS 1 LABELS ${test_LABEL} TIMEOUT ${test_TIMEOUT}
      COMMAND ${CMAKE_SOURCE_DIR}/tests/support/mpirun.sh ${ranks} $<TARGET_FILE:${test_BINARY}> ${test_ARGUMENTS})
  endforeach()
endfunction()

# gpt_system_test(AREA [QUICK] [TIMEOUT s] [LABEL label] [ARGUMENTS word...]): test_AREA.py of this folder against the
# built programs, as system.AREA.
function(gpt_system_test area)
  cmake_parse_arguments(test "QUICK" "TIMEOUT;LABEL" "ARGUMENTS" ${ARGN})
  set(labels system)
  if(test_LABEL)
    set(labels ${test_LABEL})
  endif()
  if(test_QUICK)
    list(APPEND labels quick)
  endif()
  set(programs "GPT_CUDA_BACKEND=${GPT_CUDA_BACKEND}" "GPT_WRONG_CLOCK=$<TARGET_FILE:wrong_clock>")
  if(TARGET fake_nvml)
    list(APPEND programs "GPT_FAKE_NVML=$<TARGET_FILE_DIR:fake_nvml>")
  endif()
  foreach(program IN ITEMS gpt_mpi gpt_data gpt_sample gpt_ckpt gpt_bench)
    string(TOUPPER ${program} variable)
    list(APPEND programs "${variable}=$<TARGET_FILE:${program}_program>")
  endforeach()
  gpt_register(system.${area} PROCESSORS 2 THREADS 1 LABELS ${labels} TIMEOUT ${test_TIMEOUT} ENVIRONMENT ${programs}
    COMMAND ${GPT_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/test_${area}.py ${test_ARGUMENTS})
endfunction()
