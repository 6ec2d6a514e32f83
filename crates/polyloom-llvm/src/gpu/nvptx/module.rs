//! What LLVM modules for GPUs have and those for the host do not: kernels, parameters by value, external functions,
//! text.

use crate::ir::{FUNCTION, IrEmitter, LlvmFunction, Ty, Val};
use inkwell::llvm_sys::LLVMLinkage;
use inkwell::llvm_sys::core::*;
use std::ffi::{CStr, CString};

/// The address space of memory that the threads of a block share.
const SHARED_MEMORY: u32 = 3;

/// The address space of constant memory.
const CONSTANT_MEMORY: u32 = 4;

/// The calling convention of kernels, `ptx_kernel`.
const KERNEL_CALL: u32 = 71;

impl IrEmitter<'_> {
    /// Makes a function one that the host launches.
    pub(super) fn set_gpu_kernel(&self, function: LlvmFunction) {
        // SAFETY: nothing calls a kernel from code.
        unsafe { LLVMSetFunctionCallConv(function.value(), KERNEL_CALL) }
    }

    /// Says that the threads of a warp make this call together, so that it must not come under other conditions.
    pub(super) fn set_convergent(&self, call: Val) {
        let name = c"convergent";
        // SAFETY: the call is one just made; the attribute takes no value.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(name.as_ptr(), name.count_bytes());
            LLVMAddCallSiteAttribute(call.value(), FUNCTION, LLVMCreateEnumAttribute(self.context(), kind, 0));
        }
    }

    /// Passes what the pointer parameter points at by value: a number of 8-byte words.
    pub(super) fn by_value(&self, function: LlvmFunction, param: u32, ty: Ty) {
        let enum_kind = |name: &CStr| {
            // SAFETY: the name is a C string of that length.
            unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr(), name.count_bytes()) }
        };
        // SAFETY: the attributes are LLVM's own; `byval` takes a type, `align` a number.
        unsafe {
            let by_value = LLVMCreateTypeAttribute(self.context(), enum_kind(c"byval"), ty.raw());
            LLVMAddAttributeAtIndex(function.value(), param + 1, by_value);
            let align = LLVMCreateEnumAttribute(self.context(), enum_kind(c"align"), 8);
            LLVMAddAttributeAtIndex(function.value(), param + 1, align);
        }
        self.enum_attribute(function, param + 1, "readonly");
    }

    /// A function that is defined elsewhere.
    pub(super) fn external(&self, name: &CStr, params: &[Ty], result: Ty) -> LlvmFunction {
        // SAFETY: the module is alive and copies the name.
        let known = unsafe { LLVMGetNamedFunction(self.module(), name.as_ptr()) };
        if known.is_null() {
            return self.add_function(name, params, result, false);
        }
        // SAFETY: `known` is a function.
        LlvmFunction::known(known, unsafe { LLVMGlobalGetValueType(known) })
    }

    /// The variable of this name in shared memory; one of no bytes is what a launch asks for beside the others.
    pub(super) fn shared_variable(&self, name: &str, bytes: u64, align: u32) -> Val {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the module is alive and copies the name; the variable is one of bytes in address space 3.
        unsafe {
            let known = LLVMGetNamedGlobal(self.module(), name.as_ptr());
            if !known.is_null() {
                return Val::raw(known);
            }
            let ty = LLVMArrayType2(self.int(8).raw(), bytes);
            let variable = LLVMAddGlobalInAddressSpace(self.module(), ty, name.as_ptr(), SHARED_MEMORY);
            LLVMSetAlignment(variable, align);
            if bytes > 0 {
                LLVMSetLinkage(variable, LLVMLinkage::LLVMInternalLinkage);
                LLVMSetInitializer(variable, LLVMGetUndef(ty));
            }
            Val::raw(variable)
        }
    }

    /// Constants of a type in constant memory.
    pub(crate) fn constant_table(&self, ty: Ty, constants: &[Val], align: u32) -> Val {
        let mut values: Vec<_> = constants.iter().map(|constant| constant.value()).collect();
        // SAFETY: the module is alive; the values are constants of the type.
        unsafe {
            let all = LLVMConstArray2(ty.raw(), values.as_mut_ptr(), values.len() as u64);
            let array = LLVMArrayType2(ty.raw(), values.len() as u64);
            let table = LLVMAddGlobalInAddressSpace(self.module(), array, c"table".as_ptr(), CONSTANT_MEMORY);
            LLVMSetAlignment(table, align);
            LLVMSetLinkage(table, LLVMLinkage::LLVMInternalLinkage);
            LLVMSetGlobalConstant(table, 1);
            LLVMSetInitializer(table, all);
            Val::raw(table)
        }
    }

    /// A constant text, ended by a zero byte.
    pub(super) fn text(&self, text: &str) -> Val {
        let text = CString::new(text.replace('\0', "")).unwrap_or_default();
        // SAFETY: the builder stands in a function; LLVM copies the text.
        let value = unsafe { LLVMBuildGlobalString(self.builder(), text.as_ptr(), c"text".as_ptr()) };
        // SAFETY: `value` is the global variable just made.
        unsafe { LLVMSetLinkage(value, LLVMLinkage::LLVMPrivateLinkage) };
        Val::raw(value)
    }

    /// Says which version of debug information the module has, because LLVM drops what is of no known version.
    pub(crate) fn debug_info_version(&self) {
        let name = "Debug Info Version";
        // SAFETY: the module is alive and copies the name.
        unsafe {
            // Each function with places has a table of its own, and a module has the version once.
            if !LLVMGetModuleFlag(self.module(), name.as_ptr().cast(), name.len()).is_null() {
                return;
            }
            let version = LLVMValueAsMetadata(LLVMConstInt(self.int(32).raw(), 3, 0));
            let error = inkwell::llvm_sys::LLVMModuleFlagBehavior::LLVMModuleFlagBehaviorWarning;
            LLVMAddModuleFlag(self.module(), error, name.as_ptr().cast(), name.len(), version);
        }
    }
}
