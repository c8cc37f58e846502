"""Other abstractions behind the interface of ours, as their papers describe them.

    prabhakar   Interval Networks: P. Prabhakar, Z. Rahimi Afzal, "Abstraction based Output Range Analysis for Neural
                Networks", NeurIPS 2019
    elboher     Network Abstractions: Y. Y. Elboher, J. Gottschlich, G. Katz, "An Abstraction-Based Framework for Neural
                Network Verification", CAV 2020
    fastlin     FastLin: L. Weng et al., "Towards Fast Computation of Certified Robustness for ReLU Networks", ICML
                2018; and CROWN, which differs in the slope of one line
    layerwise   FastLin's lines without substitution, as the GINNACER paper may mean them
    lirpa       FastLin, CROWN and alpha-CROWN of the library auto_LiRPA

Every one is sound in real arithmetic: the rounding of our own sums is accounted for. auto_LiRPA's is not, see there.
"""
