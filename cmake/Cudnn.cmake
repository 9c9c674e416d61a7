# cuDNN's attention in the CUDA backend. GPT_CUDNN says whether it is wanted; GPT_CUDNN_ATTENTION is what came of it,
# ON or OFF. The room that has it links gpt::cudnn.
set(GPT_CUDNN AUTO CACHE STRING
  "cuDNN's attention for GPUs: ON, OFF, AUTO (ON where CUDA, cuDNN 9 and the headers of its frontend are found)")
set_property(CACHE GPT_CUDNN PROPERTY STRINGS AUTO ON OFF)
set(GPT_CUDNN_FRONTEND "" CACHE PATH "Folder of cudnn_frontend.h, or the one above it; empty: where headers usually are")

set(GPT_CUDNN_FRONTEND_LEAST 1.13)  # set_generate_stats

if(NOT GPT_CUDNN MATCHES "^(ON|OFF|AUTO)$")
  message(FATAL_ERROR "GPT_CUDNN=${GPT_CUDNN} is not ON, OFF or AUTO.")
endif()

# Sets `version` to what `header` says of MAJOR, MINOR and PATCH, each defined as NAME with that word in it.
function(gpt_read_version version header major minor patch)
  file(STRINGS "${header}" lines REGEX "#define (${major}|${minor}|${patch}) [0-9]+")
  set(numbers "")
  foreach(name IN ITEMS ${major} ${minor} ${patch})
    string(REGEX MATCH "${name} ([0-9]+)" _ "${lines}")
    list(APPEND numbers "${CMAKE_MATCH_1}")
  endforeach()
  list(JOIN numbers "." joined)
  set(${version} "${joined}" PARENT_SCOPE)
endfunction()

# Sets `missing` to what cuDNN's attention lacks here; empty when all is there.
macro(gpt_find_cudnn missing)
  set(${missing} "")
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDNN_HOME PATH_SUFFIXES include)
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} ENV CUDNN_HOME
    PATH_SUFFIXES lib lib64)
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${GPT_CUDNN_FRONTEND} ${CUDAToolkit_INCLUDE_DIRS}
    ENV CUDNN_FRONTEND_HOME PATH_SUFFIXES include)
  if(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
    list(APPEND ${missing} "cuDNN 9 (set CUDNN_HOME)")
  else()
    gpt_read_version(CUDNN_VERSION "${CUDNN_INCLUDE_DIR}/cudnn_version.h" CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
    if(CUDNN_VERSION VERSION_LESS 9)
      list(APPEND ${missing} "cuDNN 9 (${CUDNN_INCLUDE_DIR} has ${CUDNN_VERSION})")
    endif()
  endif()
  if(NOT CUDNN_FRONTEND_INCLUDE_DIR)
    list(APPEND ${missing} "cudnn_frontend.h (set GPT_CUDNN_FRONTEND)")
  else()
    gpt_read_version(CUDNN_FRONTEND_VERSION "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h"
      CUDNN_FRONTEND_MAJOR_VERSION CUDNN_FRONTEND_MINOR_VERSION CUDNN_FRONTEND_PATCH_VERSION)
    if(CUDNN_FRONTEND_VERSION VERSION_LESS GPT_CUDNN_FRONTEND_LEAST)
      list(APPEND ${missing} "cudnn-frontend ${GPT_CUDNN_FRONTEND_LEAST} (${CUDNN_FRONTEND_INCLUDE_DIR} has ${CUDNN_FRONTEND_VERSION})")
    endif()
  endif()
endmacro()

set(GPT_CUDNN_ATTENTION OFF)
if(NOT GPT_CUDA_BACKEND STREQUAL ON)
  if(GPT_CUDNN STREQUAL ON)
    message(FATAL_ERROR "GPT_CUDNN=ON, and the CUDA backend is ${GPT_CUDA_BACKEND}: cuDNN needs GPT_CUDA=ON.")
  endif()
elseif(NOT GPT_CUDNN STREQUAL OFF)
  gpt_find_cudnn(missing)
  list(JOIN missing ", " missing)
  if(NOT missing)
    set(GPT_CUDNN_ATTENTION ON)
    message(STATUS "cuDNN's attention: ON (cuDNN ${CUDNN_VERSION}, frontend ${CUDNN_FRONTEND_VERSION})")
  elseif(GPT_CUDNN STREQUAL ON)
    message(FATAL_ERROR "GPT_CUDNN=ON, and these were not found: ${missing}. Or leave GPT_CUDNN off: the program's own "
      "attention needs none of them.")
  else()
    message(STATUS "cuDNN's attention: OFF (not found: ${missing})")
  endif()
endif()

if(GPT_CUDNN_ATTENTION)
  add_library(gpt_cudnn INTERFACE)
  add_library(gpt::cudnn ALIAS gpt_cudnn)
  target_include_directories(gpt_cudnn SYSTEM INTERFACE ${CUDNN_FRONTEND_INCLUDE_DIR} ${CUDNN_INCLUDE_DIR})
  # Else the headers bring a JSON library of their own along.
  target_compile_definitions(gpt_cudnn INTERFACE CUDNN_FRONTEND_SKIP_JSON_LIB)
  target_link_libraries(gpt_cudnn INTERFACE ${CUDNN_LIBRARY})
endif()
