//! Blocks and branches, functions and calls, and what instructions say of themselves in metadata.

use super::*;

impl IrEmitter<'_> {
    /// A new block at the end of the current function.
    pub(crate) fn block(&self, name: &CStr) -> BasicBlock {
        // SAFETY: the current block belongs to a function.
        unsafe {
            let function = LLVMGetBasicBlockParent(self.current().0);
            BasicBlock(LLVMAppendBasicBlockInContext(self.context, function, name.as_ptr()))
        }
    }

    pub(crate) fn current(&self) -> BasicBlock {
        // SAFETY: the builder is always positioned in a block while a function is lowered.
        BasicBlock(unsafe { LLVMGetInsertBlock(self.builder) })
    }

    pub(crate) fn switch_to(&self, block: BasicBlock) {
        // SAFETY: the block is alive.
        unsafe { LLVMPositionBuilderAtEnd(self.builder, block.0) }
    }

    pub(crate) fn br(&self, target: BasicBlock) {
        // SAFETY: the block is of the current function.
        unsafe { LLVMBuildBr(self.builder, target.0) };
    }

    /// The branch back of a loop that LLVM is told something of: names of metadata, each with a number if it has one.
    pub(crate) fn br_back(&self, target: BasicBlock, options: &[(&str, Option<u32>)]) {
        // SAFETY: the constant lives in this context.
        let constant = |n: u32| unsafe { LLVMValueAsMetadata(LLVMConstInt(self.int(32).0, n.into(), 0)) };
        let option = |&(name, number): &(&str, Option<u32>)| {
            let number = number.map(|n| MetadataNode(constant(n)));
            self.meta_node(&[self.meta_string(name)].into_iter().chain(number).collect::<Vec<MetadataNode>>())
        };
        let options = options.iter().map(option);
        // SAFETY: the block is of the current function; the temporary node is replaced before anything reads it, by a
        // node that so refers to itself, as those of loops do.
        unsafe {
            let branch = LLVMBuildBr(self.builder, target.0);
            let itself = LLVMTemporaryMDNode(self.context, std::ptr::null_mut(), 0);
            let parts: Vec<MetadataNode> = [MetadataNode(itself)].into_iter().chain(options).collect();
            let node = self.meta_node(&parts);
            LLVMMetadataReplaceAllUsesWith(itself, node.0);
            self.attach(Val(branch), "llvm.loop", node);
        }
    }

    pub(crate) fn cond_br(&self, cond: Val, then: BasicBlock, otherwise: BasicBlock) {
        // SAFETY: the condition is an `i1`, the blocks are of the current function.
        unsafe { LLVMBuildCondBr(self.builder, cond.0, then.0, otherwise.0) };
    }

    /// Works like [`IrEmitter::cond_br`], telling LLVM that the condition hardly ever holds.
    pub(crate) fn cond_br_unlikely(&self, cond: Val, rare: BasicBlock, usual: BasicBlock) {
        // SAFETY: as in `cond_br`; the weights are two integers after the node's name.
        unsafe {
            let branch = LLVMBuildCondBr(self.builder, cond.0, rare.0, usual.0);
            let weight = |n| MetadataNode(LLVMValueAsMetadata(LLVMConstInt(self.int(32).0, n, 0)));
            let node = self.meta_node(&[self.meta_string("branch_weights"), weight(1), weight(2000)]);
            self.attach(Val(branch), "prof", node);
        }
    }

    /// A loop over `0..n`, which is not negative. `body` is given the index, an `i64`, and leaves a block to go on from.
    pub(crate) fn for_each(&self, n: Val, body: impl FnOnce(Val)) {
        let wide = self.int(64);
        let (from, each, done) = (self.current(), self.block(c"each"), self.block(c"each_done"));
        self.cond_br(self.icmp(EQ, n, self.i64_const(0)), done, each);
        self.switch_to(each);
        let index = self.phi(wide);
        self.add_incoming(index, self.i64_const(0), from);
        body(index);
        let next = self.add(index, self.i64_const(1));
        self.add_incoming(index, next, self.current());
        self.cond_br(self.icmp(EQ, next, n), done, each);
        self.switch_to(done);
    }

    pub(crate) fn ret_void(&self) {
        // SAFETY: the current function returns nothing.
        unsafe { LLVMBuildRetVoid(self.builder) };
    }

    pub(crate) fn ret(&self, value: Val) {
        // SAFETY: the value has the current function's result type.
        unsafe { LLVMBuildRet(self.builder, value.0) };
    }

    pub(crate) fn unreachable(&self) {
        // SAFETY: the block has no terminator yet.
        unsafe { LLVMBuildUnreachable(self.builder) };
    }

    /// A phi; its edges follow with [`IrEmitter::add_incoming`].
    pub(crate) fn phi(&self, ty: Ty) -> Val {
        // SAFETY: phis are emitted before other instructions of a block.
        Val(unsafe { LLVMBuildPhi(self.builder, ty.0, UNNAMED) })
    }

    pub(crate) fn add_incoming(&self, phi: Val, value: Val, from: BasicBlock) {
        let (mut values, mut blocks) = ([value.0], [from.0]);
        // SAFETY: `phi` is a phi of the value's type.
        unsafe { LLVMAddIncoming(phi.0, values.as_mut_ptr(), blocks.as_mut_ptr(), 1) }
    }

    pub(crate) fn add_function(&self, name: &CStr, params: &[Ty], result: Ty, internal: bool) -> LlvmFunction {
        let mut params: Vec<LLVMTypeRef> = params.iter().map(|t| t.0).collect();
        // SAFETY: the module is alive and copies the name.
        unsafe {
            let ty = LLVMFunctionType(result.0, params.as_mut_ptr(), params.len() as u32, 0);
            let value = LLVMAddFunction(self.module, name.as_ptr(), ty);
            if internal {
                LLVMSetLinkage(value, LLVMLinkage::LLVMInternalLinkage);
            }
            LlvmFunction { value, ty }
        }
    }

    /// Keeps a function's symbol within the library that it is linked into.
    pub(crate) fn hide(&self, function: LlvmFunction) {
        // SAFETY: the function is alive.
        unsafe { LLVMSetVisibility(function.value, LLVMVisibility::LLVMHiddenVisibility) }
    }

    /// Starts the function's body: appends its entry block and goes there.
    pub(crate) fn begin(&self, function: LlvmFunction) -> BasicBlock {
        // SAFETY: the function has no body yet.
        let entry =
            BasicBlock(unsafe { LLVMAppendBasicBlockInContext(self.context, function.value, c"entry".as_ptr()) });
        self.switch_to(entry);
        entry
    }

    pub(crate) fn param(&self, function: LlvmFunction, index: u32) -> Val {
        // SAFETY: the function has this parameter.
        Val(unsafe { LLVMGetParam(function.value, index) })
    }

    /// Sets an attribute of LLVM's own on the function (`place` 0xffff_ffff), its result (0) or parameter `place - 1`.
    pub(crate) fn enum_attribute(&self, function: LlvmFunction, place: u32, name: &str) {
        // SAFETY: the name is known to LLVM; kind 0 means that it is not, and is passed over.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len());
            if kind != 0 {
                let attribute = LLVMCreateEnumAttribute(self.context, kind, 0);
                LLVMAddAttributeAtIndex(function.value, place, attribute);
            }
        }
    }

    /// Lets the function's code begin at a multiple of so many bytes.
    pub(crate) fn set_function_align(&self, function: LlvmFunction, bytes: u32) {
        // SAFETY: the function is alive, and the number is a power of two.
        unsafe { LLVMSetAlignment(function.value, bytes) }
    }

    /// Sets a target-dependent attribute on the function.
    pub(crate) fn string_attribute(&self, function: LlvmFunction, name: &str, value: &str) {
        // SAFETY: the context copies both strings.
        unsafe {
            let attribute = LLVMCreateStringAttribute(
                self.context,
                name.as_ptr().cast(),
                name.len() as u32,
                value.as_ptr().cast(),
                value.len() as u32,
            );
            LLVMAddAttributeAtIndex(function.value, FUNCTION, attribute);
        }
    }

    pub(crate) fn call(&self, function: LlvmFunction, args: &[Val]) -> Val {
        let mut args: Vec<LLVMValueRef> = args.iter().map(|v| v.0).collect();
        // SAFETY: the arguments have the parameters' types.
        unsafe {
            let call = LLVMBuildCall2(
                self.builder,
                function.ty,
                function.value,
                args.as_mut_ptr(),
                args.len() as u32,
                UNNAMED,
            );
            LLVMSetInstructionCallConv(call, LLVMGetFunctionCallConv(function.value));
            Val(call)
        }
    }

    /// Assembly text with effects, of the arguments and with one result.
    pub(crate) fn inline_asm(&self, result: Ty, text: &str, constraints: &str, args: &[Val]) -> Val {
        // SAFETY: the constraints are those of the arguments' types and the result's.
        unsafe {
            let mut params: Vec<LLVMTypeRef> = args.iter().map(|v| LLVMTypeOf(v.0)).collect();
            let mut args: Vec<LLVMValueRef> = args.iter().map(|v| v.0).collect();
            let ty = LLVMFunctionType(result.0, params.as_mut_ptr(), params.len() as u32, 0);
            let (text, text_len) = (text.as_ptr().cast(), text.len());
            let (constraints, constraints_len) = (constraints.as_ptr().cast(), constraints.len());
            let dialect = LLVMInlineAsmDialect::LLVMInlineAsmDialectATT;
            let code = LLVMGetInlineAsm(ty, text, text_len, constraints, constraints_len, 1, 0, dialect, 0);
            Val(LLVMBuildCall2(self.builder, ty, code, args.as_mut_ptr(), args.len() as u32, UNNAMED))
        }
    }

    /// Calls a C function through a pointer.
    pub(crate) fn call_pointer(&self, pointer: Val, params: &[Ty], args: &[Val]) {
        let mut params: Vec<LLVMTypeRef> = params.iter().map(|t| t.0).collect();
        let mut args: Vec<LLVMValueRef> = args.iter().map(|v| v.0).collect();
        // SAFETY: the arguments have the parameters' types.
        unsafe {
            let ty = LLVMFunctionType(self.void().0, params.as_mut_ptr(), params.len() as u32, 0);
            LLVMBuildCall2(self.builder, ty, pointer.0, args.as_mut_ptr(), args.len() as u32, UNNAMED);
        }
    }

    /// Uses LLVM's internal calling convention, which passes vectors in registers.
    pub(crate) fn set_fast_call(&self, function: LlvmFunction) {
        // SAFETY: calls read the convention back from the function. 8 is `fastcc`.
        unsafe { LLVMSetFunctionCallConv(function.value, 8) }
    }

    /// Takes away the line of source that instructions are for, and gives it.
    pub(crate) fn take_location(&self) -> DebugLocation {
        // SAFETY: the builder is alive.
        unsafe {
            let location = LLVMGetCurrentDebugLocation2(self.builder);
            LLVMSetCurrentDebugLocation2(self.builder, std::ptr::null_mut());
            DebugLocation(location)
        }
    }

    /// Gives back what [`IrEmitter::take_location`] took.
    pub(crate) fn set_location(&self, location: DebugLocation) {
        // SAFETY: the location is of this context, or none.
        unsafe { LLVMSetCurrentDebugLocation2(self.builder, location.0) }
    }

    /// Calls an intrinsic that is overloaded on `types`.
    pub(crate) fn intrinsic(&self, name: &str, types: &[Ty], args: &[Val]) -> Val {
        let mut types: Vec<LLVMTypeRef> = types.iter().map(|t| t.0).collect();
        let mut args: Vec<LLVMValueRef> = args.iter().map(|v| v.0).collect();
        // SAFETY: the name is one of LLVM 22's intrinsics (an unknown one has id 0 and fails the assertion), the types
        // are those it is overloaded on and the arguments fit.
        unsafe {
            let id = LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len());
            assert!(id != 0, "LLVM has no intrinsic {name}");
            let function = LLVMGetIntrinsicDeclaration(self.module, id, types.as_mut_ptr(), types.len());
            let ty = LLVMGlobalGetValueType(function);
            Val(LLVMBuildCall2(self.builder, ty, function, args.as_mut_ptr(), args.len() as u32, UNNAMED))
        }
    }

    /// Square root.
    pub(crate) fn sqrt(&self, a: Val) -> Val {
        self.with_fast_math(self.unary_intrinsic("llvm.sqrt", a))
    }

    /// The sum of a vector's lanes of the type `elem`, added pair by pair.
    pub(crate) fn sum_in_any_order(&self, vector: Val, elem: Ty) -> Val {
        let nothing = self.float_const(elem, -0.0);
        let flags = self.set_fast_math(self.fast_math.get() | FAST_REASSOCIATE);
        let sum = self.intrinsic("llvm.vector.reduce.fadd", &[self.type_of(vector)], &[nothing, vector]);
        let sum = self.with_fast_math(sum);
        self.set_fast_math(flags);
        sum
    }

    /// Says that a call's pointer argument is a multiple of `align`.
    pub(crate) fn set_argument_align(&self, call: Val, index: u32, align: u32) {
        // SAFETY: `call` is a call with that many arguments; attribute places count them from 1.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(c"align".as_ptr(), 5);
            let attribute = LLVMCreateEnumAttribute(self.context, kind, align.into());
            LLVMAddCallSiteAttribute(call.0, index + 1, attribute);
        }
    }

    /// A one-operand intrinsic overloaded on its operand's type.
    pub(crate) fn unary_intrinsic(&self, name: &str, a: Val) -> Val {
        self.intrinsic(name, &[self.type_of(a)], &[a])
    }

    /// A two-operand intrinsic overloaded on its operands' type.
    pub(crate) fn binary_intrinsic(&self, name: &str, a: Val, b: Val) -> Val {
        self.intrinsic(name, &[self.type_of(a)], &[a, b])
    }

    pub(crate) fn meta_string(&self, text: &str) -> MetadataNode {
        // SAFETY: the context copies the text.
        MetadataNode(unsafe { LLVMMDStringInContext2(self.context, text.as_ptr().cast(), text.len()) })
    }

    pub(crate) fn meta_i64(&self, value: u64) -> MetadataNode {
        // SAFETY: the constant lives in this context.
        MetadataNode(unsafe { LLVMValueAsMetadata(LLVMConstInt(self.int(64).0, value, 0)) })
    }

    pub(crate) fn meta_node(&self, operands: &[MetadataNode]) -> MetadataNode {
        let mut operands: Vec<LLVMMetadataRef> = operands.iter().map(|m| m.0).collect();
        // SAFETY: the operands live in this context.
        MetadataNode(unsafe { LLVMMDNodeInContext2(self.context, operands.as_mut_ptr(), operands.len()) })
    }

    /// Attaches metadata of the given kind to an instruction.
    pub(crate) fn attach(&self, instruction: Val, kind: &str, node: MetadataNode) {
        // SAFETY: constants, which folding may have made of an instruction, are left alone.
        unsafe {
            if LLVMIsAInstruction(instruction.0).is_null() {
                return;
            }
            let kind = LLVMGetMDKindIDInContext(self.context, kind.as_ptr().cast(), kind.len() as u32);
            LLVMSetMetadata(instruction.0, kind, LLVMMetadataAsValue(self.context, node.0));
        }
    }
}
