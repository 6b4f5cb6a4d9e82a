# ring_headers_alone: each header that nothing else compiles by itself, in a source file of its own.
# The others are in a library's file set (all_verify_interface_header_sets), or are what the source
# file of their name includes first (tools/tidy.py sees to it). Not part of all: tools/check
# --headers builds it.
set(folders api consensus ec_offload memgest rdma ring srs tests tools)
list(TRANSFORM folders APPEND "/*.h" OUTPUT_VARIABLE patterns)
list(TRANSFORM patterns PREPEND "${PROJECT_SOURCE_DIR}/")
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${patterns})
get_property(in_file_sets GLOBAL PROPERTY RING_FILE_SET_HEADERS)
list(REMOVE_ITEM headers ${in_file_sets})
set(sources)
foreach(header IN LISTS headers)
  string(REGEX REPLACE "[.]h$" ".cc" own_source ${header})
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${own_source})
    set(source ${PROJECT_BINARY_DIR}/headers_alone/${header}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n" @ONLY)
    list(APPEND sources ${source})
  endif()
endforeach()
add_library(ring_headers_alone OBJECT EXCLUDE_FROM_ALL ${sources})
target_include_directories(ring_headers_alone PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(ring_headers_alone PRIVATE Ring::admin Ring::client Ring::node Ring::eco
                      PkgConfig::liburing GTest::gmock ring_jerasure ring_options)
