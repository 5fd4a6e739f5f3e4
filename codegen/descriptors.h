/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.h - short names for the types of descriptor.proto and plugin.proto. */
#ifndef SL_DESCRIPTORS_H
#define SL_DESCRIPTORS_H

#include <google/protobuf/compiler/plugin.pb-c.h>

typedef Google__Protobuf__Compiler__CodeGeneratorRequest sl_request;
typedef Google__Protobuf__Compiler__CodeGeneratorResponse sl_response;
typedef Google__Protobuf__Compiler__CodeGeneratorResponse__File sl_response_file;
typedef Google__Protobuf__FileDescriptorProto sl_file;
typedef Google__Protobuf__DescriptorProto sl_message;
typedef Google__Protobuf__FieldDescriptorProto sl_field;
typedef Google__Protobuf__OneofDescriptorProto sl_oneof;
typedef Google__Protobuf__EnumDescriptorProto sl_enum;
typedef Google__Protobuf__ServiceDescriptorProto sl_service;
typedef Google__Protobuf__MethodDescriptorProto sl_method;
typedef Google__Protobuf__SourceCodeInfo__Location sl_location;

#define SL_TYPE(name)  GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_##name
#define SL_LABEL(name) GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_##name

/* Field numbers of descriptor.proto that paths of source_code_info are made of. */
enum {
    SL_FILE_MESSAGE = 4,
    SL_FILE_ENUM = 5,
    SL_FILE_SERVICE = 6,
    SL_MESSAGE_FIELD = 2,
    SL_MESSAGE_NESTED = 3,
    SL_MESSAGE_ENUM = 4,
    SL_MESSAGE_ONEOF = 8,
    SL_ENUM_VALUE = 2,
    SL_SERVICE_METHOD = 2
};

#endif
