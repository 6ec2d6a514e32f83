//! The names of devices: where kernels run and arrays are.

use std::fmt;

/// Says where kernels run and arrays are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DeviceId {
    /// `cpu`: the machine itself.
    #[default]
    Cpu,
    /// `sim:0`: the simulator of a GPU.
    Simulator,
    /// `cuda:0` and so on: an NVIDIA GPU, by its number.
    Cuda(u32),
}

impl DeviceId {
    /// The device of this name, whether or not this machine has it: `sim` and `cuda` are the first of their kind.
    pub fn from_name(name: &str) -> Option<DeviceId> {
        match name {
            "cpu" => Some(DeviceId::Cpu),
            "sim" | "sim:0" => Some(DeviceId::Simulator),
            "cuda" => Some(DeviceId::Cuda(0)),
            _ => {
                let number = name.strip_prefix("cuda:")?;
                let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
                number.parse().ok().filter(|_| is_plain).map(DeviceId::Cuda)
            }
        }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceId::Cpu => f.write_str("cpu"),
            DeviceId::Simulator => f.write_str("sim:0"),
            DeviceId::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for device in [DeviceId::Cpu, DeviceId::Simulator, DeviceId::Cuda(0), DeviceId::Cuda(12)] {
            assert_eq!(DeviceId::from_name(&device.to_string()), Some(device));
        }
        assert_eq!(DeviceId::from_name("cuda"), Some(DeviceId::Cuda(0)));
        for name in ["", "sim:1", "cuda:", "cuda:-1", "cuda:+1", "cuda:x", "gpu"] {
            assert_eq!(DeviceId::from_name(name), None, "{name}");
        }
    }
}
