"""What solvers and other tools read: ONNX, VNN-LIB, Marabou queries, MILPs."""
